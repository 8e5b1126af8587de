import errno
from pathlib import Path

from roquet.disk import PAGE_SIZE, SystemDisk
from roquet.store.files.mapped_file import MappedFile, create_file
from tests.support.faulty_disk import FaultyDisk
from tests.support.raising import raises

SIZE = 3 << 20


def test_a_created_file_is_seen_in_full_size_only(tmp_path: Path) -> None:
    file = create_file(SystemDisk(), tmp_path / "log" / "file", 40, SIZE)
    assert file.path == tmp_path / "log" / "file"
    assert file.path.stat().st_size == SIZE
    assert (file.start, file.end) == (40, 40 + SIZE)
    assert [each.name for each in tmp_path.iterdir()] == ["log"]


def test_a_file_that_finds_no_space_leaves_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    disk.make_directory(tmp_path / "log")
    disk.is_full = True
    with raises(OSError, errno=errno.ENOSPC) as caught:
        create_file(disk, tmp_path / "log" / "file", 0, SIZE, allocated_size=SIZE)
    path = tmp_path / "log" / "file"
    reason = f"[Errno 28] No space left on device, {SIZE} bytes wanted: '{path}'"
    assert str(caught.value) == reason
    assert list((tmp_path / "log").iterdir()) == []
    assert [each.name for each in tmp_path.iterdir()] == ["log"]


def test_a_look_at_some_bytes_maps_nothing_and_sees_what_the_mapping_does(tmp_path: Path) -> None:
    file = create_file(SystemDisk(), tmp_path / "file", 0, PAGE_SIZE)
    assert file.peek(8, 5) == bytes(5)
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    file.mapping[10:15] = b"hello"
    assert file.peek(8, 5) == b"\0\0hel"
    file.close()
    assert file.peek(8, 5) == b"\0\0hel"
    file.close()


def test_what_is_written_is_in_the_file(tmp_path: Path) -> None:
    file = create_file(SystemDisk(), tmp_path / "file", 0, PAGE_SIZE)
    file.mapping[10:15] = b"hello"
    file.sync()
    file.close()
    assert file.path.read_bytes()[10:15] == b"hello"
    assert MappedFile(SystemDisk(), file.path, 0, PAGE_SIZE).path == file.path


def test_space_is_reserved_in_steps_and_never_beyond_the_file(tmp_path: Path) -> None:
    file = create_file(SystemDisk(), tmp_path / "file", 0, 10 * PAGE_SIZE)
    file.reserve(PAGE_SIZE, PAGE_SIZE)
    assert file.reserved_size == 2 * PAGE_SIZE
    file.reserve(2 * PAGE_SIZE, PAGE_SIZE)
    assert file.reserved_size == 2 * PAGE_SIZE
    file.reserve(9 * PAGE_SIZE + 1, 4 * PAGE_SIZE)
    assert file.reserved_size == 10 * PAGE_SIZE
    assert file.path.stat().st_blocks * 512 == 10 * PAGE_SIZE
    file.close()


def test_a_failed_reservation_changes_nothing(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    file = create_file(disk, tmp_path / "file", 0, PAGE_SIZE)
    disk.is_full = True
    with raises(OSError, errno=errno.ENOSPC):
        file.reserve(1, 1)
    assert file.reserved_size == 0
    file.close()


def test_zeroing_starts_at_the_position_and_reaches_the_end(tmp_path: Path) -> None:
    file = create_file(SystemDisk(), tmp_path / "file", 0, SIZE)
    for position in (99, 100, 101, SIZE - 1):
        file.mapping[position] = 1
    assert not file.is_zero_from(102)
    file.zero_from(100)
    assert file.mapping[99] == 1
    assert file.is_zero_from(100)
    assert file.mapping[100:] == bytes(SIZE - 100)
    file.close()


def test_only_chunks_with_something_in_them_count_as_written(tmp_path: Path) -> None:
    file = create_file(SystemDisk(), tmp_path / "file", 0, SIZE)
    file.mapping[(1 << 20) + 5] = 1
    ((start, end),) = file.written_chunks(1)
    assert start <= (1 << 20) + 5 < end <= start + (1 << 20)
    file.close()


def test_a_removed_file_is_gone(tmp_path: Path) -> None:
    file = create_file(SystemDisk(), tmp_path / "file", 0, PAGE_SIZE)
    assert file.mapping[0] == 0
    file.remove()
    assert not file.path.exists()


def test_a_file_that_was_let_go_can_be_seen_through_views(tmp_path: Path) -> None:
    file = create_file(SystemDisk(), tmp_path / "file", 0, PAGE_SIZE)
    file.mapping[5] = 7
    view = memoryview(file.mapping)[5:6]
    file.let_go()
    file.path.unlink()
    assert bytes(view) == b"\7"
