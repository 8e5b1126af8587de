import pytest

from roquet.store.files.zeros import is_zero


@pytest.mark.parametrize("size", [0, 1, 2, 100])
def test_zeros_are_zero(size: int) -> None:
    assert is_zero(b"\x01" + bytes(size) + b"\x01", 1, 1 + size)


@pytest.mark.parametrize("position", [1, 2, 50, 98])
def test_one_other_byte_is_noticed(position: int) -> None:
    content = bytearray(100)
    content[position] = 1
    assert not is_zero(bytes(content), 1, 99)
    content[position] = 0x80
    assert not is_zero(bytes(content), 1, 99)


@pytest.mark.parametrize(("start", "end"), [(-1, 5), (0, 11), (11, 11), (6, 5)])
def test_what_is_not_there_cannot_be_asked_for(start: int, end: int) -> None:
    with pytest.raises(IndexError):
        is_zero(bytes(10), start, end)
