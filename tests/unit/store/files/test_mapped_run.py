from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.store.errors import BadStoreDirectory
from roquet.store.files.mapped_file import MappedRun

SIZE = 100


def run_of(directory: Path, *starts: int) -> MappedRun:
    run = MappedRun(SystemDisk(), directory, SIZE)
    for start in starts:
        run.files.append(run.create(start, allocated_size=SIZE))
    return run


def names(directory: Path) -> list[int]:
    return sorted(int(each.name) for each in directory.iterdir())


def test_files_are_loaded_in_the_order_of_their_offsets(tmp_path: Path) -> None:
    run_of(tmp_path, 300, 100, 200)
    run = MappedRun(SystemDisk(), tmp_path, SIZE)
    run.load()
    assert [(file.start, file.end) for file in run.files] == [(100, 200), (200, 300), (300, 400)]


def test_nothing_to_load_is_an_empty_run(tmp_path: Path) -> None:
    run = MappedRun(SystemDisk(), tmp_path / "missing", SIZE)
    run.load()
    assert run.files == []


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("00000000000000000000", 99),
        ("notes.txt", 100),
        ("00000000000000000050", 100),
        ("09223372036854775800", 100),
    ],
    ids=["size", "name", "start", "end"],
)
def test_a_file_that_does_not_belong_is_refused(tmp_path: Path, name: str, size: int) -> None:
    (tmp_path / name).write_bytes(bytes(size))
    with pytest.raises(BadStoreDirectory) as caught:
        MappedRun(SystemDisk(), tmp_path, SIZE).load()
    assert caught.value.path == tmp_path / name


def test_an_empty_last_file_is_what_a_crash_left_and_goes(tmp_path: Path) -> None:
    run_of(tmp_path, 0)
    (tmp_path / "00000000000000000100").touch()
    run = MappedRun(SystemDisk(), tmp_path, SIZE)
    run.load()
    assert names(tmp_path) == [0]
    assert len(run.files) == 1


def test_a_reader_leaves_an_empty_last_file_alone(tmp_path: Path) -> None:
    (tmp_path / "00000000000000000100").touch()
    run = MappedRun(SystemDisk(), tmp_path, SIZE)
    run.load(is_writable=False)
    assert run.files == []
    assert names(tmp_path) == [100]


@pytest.mark.parametrize(
    ("offset", "start"), [(99, None), (100, 100), (199, 100), (200, None), (300, 300), (400, None)]
)
def test_a_byte_is_found_in_its_file_or_nowhere(
    tmp_path: Path, offset: int, start: int | None
) -> None:
    file = run_of(tmp_path, 100, 300).file_at(offset)
    assert (file and file.start) == start


@pytest.mark.parametrize(
    ("start", "end", "found"),
    [(0, 100, []), (0, 101, [100]), (199, 201, [100, 200]), (200, 300, [200]), (300, 400, [])],
)
def test_files_between_two_offsets(tmp_path: Path, start: int, end: int, found: list[int]) -> None:
    run = run_of(tmp_path, 100, 200)
    assert [file.start for file in run.files_between(start, end)] == found


def test_a_cut_removes_later_files_and_zeroes_the_tail(tmp_path: Path) -> None:
    run = run_of(tmp_path, 0, 100, 200)
    for file in run.files:
        file.mapping[:] = b"x" * SIZE
    run.cut(150)
    run.close()
    assert names(tmp_path) == [0, 100]
    assert (tmp_path / "00000000000000000000").read_bytes() == b"x" * 100
    assert (tmp_path / "00000000000000000100").read_bytes() == b"x" * 50 + bytes(50)


def test_a_cut_between_two_files_leaves_the_first_whole(tmp_path: Path) -> None:
    run = run_of(tmp_path, 0, 100)
    run.files[0].mapping[:] = b"x" * SIZE
    run.cut(100)
    run.close()
    assert names(tmp_path) == [0]
    assert (tmp_path / "00000000000000000000").read_bytes() == b"x" * 100
