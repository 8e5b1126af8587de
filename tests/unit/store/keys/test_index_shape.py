from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.store.keys.index_file import IndexFile, IndexShape, create_index_file, shape_of
from roquet.store.keys.message_keys import Key, KeyBatch, pack_keys


def batch(*physical_offsets: int) -> KeyBatch:
    return pack_keys(Key(each, each + 1000, each * 31 + 7) for each in physical_offsets)


def index_file(directory: Path, slot_count: int, entry_count: int) -> IndexFile:
    return create_index_file(SystemDisk(), directory / "1", slot_count, entry_count)


@pytest.mark.parametrize("shape", [(1, 4), (5, 2), (50, 120), (100, 400), (7, 1000), (1000, 7)])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_the_shape_of_a_file_with_keys_is_found(
    tmp_path: Path, shape: tuple[int, int], count: int
) -> None:
    index = index_file(tmp_path, *shape)
    index.put(batch(*range(0, 300 * count, 300)))
    assert shape_of(index.file) == shape
    index.file.close()


def test_an_empty_file_shows_nothing(tmp_path: Path) -> None:
    index = index_file(tmp_path, 50, 120)
    assert shape_of(index.file) is None
    index.file.close()


def test_of_a_large_file_only_the_default_shape_is_tried(tmp_path: Path) -> None:
    usual = index_file(tmp_path, 500_000, 2_000_000)
    usual.put(batch(300, 600))
    assert shape_of(usual.file) == IndexShape(500_000, 2_000_000)
    usual.file.close()
    unusual = index_file(tmp_path, 2_000_000, 1_700_000)
    unusual.put(batch(300, 600))
    assert shape_of(unusual.file) is None
    unusual.file.close()


@pytest.mark.parametrize("position", [16 + 7, 24 + 7, 36 + 3])
def test_a_damaged_header_shows_nothing(tmp_path: Path, position: int) -> None:
    index = index_file(tmp_path, 50, 120)
    index.put(batch(300, 600, 900))
    index.file.mapping[position] ^= 0x55
    assert shape_of(index.file) is None
    index.file.close()
