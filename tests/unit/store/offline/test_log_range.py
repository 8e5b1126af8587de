"""A range is read from the files it needs, and survives what happens to them."""

import pickle
from contextlib import closing
from pathlib import Path

import pytest

from roquet.store.errors import BadStoreDirectory, DamagedRange, FileGone
from roquet.store.offline import snapshot as snapshot_module
from roquet.store.offline.log_range import Run
from roquet.store.offline.reader import StoreReader
from roquet.store.offline.snapshot import StoreSnapshot
from tests.support.drafts import draft
from tests.support.raising import raises
from tests.support.recording_disk import RecordingDisk
from tests.support.snapshot_rows import split_run
from tests.support.stores import opened

COUNT = 150


@pytest.fixture
def snapshot(tmp_path: Path) -> StoreSnapshot:
    with opened(tmp_path) as store:
        for number in range(COUNT):
            store.append(draft(b"%03d" % number))
    with StoreReader.open(tmp_path) as reader:
        return reader.snapshot()


def test_only_the_files_of_a_range_are_opened(snapshot: StoreSnapshot) -> None:
    first, second, third = (each.path for each in snapshot.files[:3])
    for begin, end, expected in (
        (0, 4096, [first]),
        (4096, 8192, [second]),
        (5000, 6000, [second]),
        (4000, 8193, [first, second, third]),
        (snapshot.log_end, snapshot.log_end + 5, []),
    ):
        disk = RecordingDisk()
        part = snapshot.range(begin, end)
        list(part.read(disk=disk))
        assert disk.opened == expected == [each.path for each in part.files]


@pytest.mark.parametrize("check", [True, False])
def test_garbage_over_a_checksum_is_damage(snapshot: StoreSnapshot, check: bool) -> None:
    sent = pickle.loads(pickle.dumps(snapshot))  # noqa: S301  As it comes to a task of Spark.
    size = draft(b"000").size
    with snapshot.files[0].path.open("r+b") as file:
        file.seek(2 * size - 20)
        file.write(b"name\x01some values\x02a\x01b")
    found = list(sent.range(0, 4096).read(check=check))
    damages = [each for each in found if isinstance(each, DamagedRange)]
    expected = [DamagedRange(size, 2 * size, "its checksum is damaged")]
    # Who wants no checks gets none.
    assert damages == (expected if check else [])


def test_runs_are_no_larger_than_asked_for(snapshot: StoreSnapshot) -> None:
    runs = [each for each in snapshot.range(0, 4096).read(run_size=500) if isinstance(each, Run)]
    record_size = len(next(split_run(runs[0])))
    assert len(runs) > 5
    assert all(len(each.records) < 500 + record_size for each in runs)
    assert [each.physical_offset for each in runs[1:]] == [each.end for each in runs[:-1]]
    (whole,) = snapshot.range(0, 4096).read()
    assert isinstance(whole, Run)
    assert whole.count == sum(each.count for each in runs)


def test_records_can_be_used_after_their_file_was_let_go(snapshot: StoreSnapshot) -> None:
    runs = [each for each in snapshot.range(0, 8192).read() if isinstance(each, Run)]
    for file in snapshot.files:
        file.path.unlink()
    assert sum(len(list(split_run(each))) for each in runs) == sum(each.count for each in runs)


def test_a_range_that_is_given_up_lets_its_file_go(snapshot: StoreSnapshot) -> None:
    disk = RecordingDisk()
    runs = snapshot.range(0, 8192).read(run_size=100, disk=disk)
    with closing(runs):
        next(runs)
        assert len(disk.open_descriptors) == 1
    assert not disk.open_descriptors


def test_a_file_that_is_gone_is_named(snapshot: StoreSnapshot) -> None:
    second = snapshot.files[1].path
    second.unlink()
    runs = snapshot.range(0, 8192).read()
    next(runs)
    with raises(FileGone, path=second) as caught:
        next(runs)
    # It happens in one process and is reported in another.
    reported = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert str(reported) == str(caught.value)


def test_a_file_that_is_removed_while_it_is_read_is_read_to_its_end(
    snapshot: StoreSnapshot,
) -> None:
    count = sum(each.count for each in snapshot.range(0, 4096).read() if isinstance(each, Run))
    found = 0
    for each in snapshot.range(0, 4096).read(run_size=200):
        snapshot.files[0].path.unlink(missing_ok=True)
        assert isinstance(each, Run)
        found += each.count
    assert found == count


def test_a_file_that_is_shorter_than_it_was_is_refused(snapshot: StoreSnapshot) -> None:
    path = snapshot.files[0].path
    path.write_bytes(path.read_bytes()[:1000])
    with raises(BadStoreDirectory, path=path):
        list(snapshot.range(0, 4096).read())


def test_a_file_that_goes_while_the_snapshot_is_taken_is_named(
    tmp_path: Path, snapshot: StoreSnapshot
) -> None:
    with StoreReader.open(tmp_path) as reader:
        snapshot.files[0].path.unlink()
        with pytest.raises(FileGone) as caught:
            reader.snapshot()
    assert caught.value.path == snapshot.files[0].path


def test_runs_go_across_the_borders_of_segments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_module, "SEGMENT_SIZE_MIN", 500)
    with opened(tmp_path, commit_log_file_size=1 << 14) as store:
        for number in range(100):
            store.append(draft(b"%03d" % number))
    with StoreReader.open(tmp_path) as reader:
        snapshot = reader.snapshot()
    assert len(snapshot.segments) > 20
    (run,) = snapshot.range(0, snapshot.log_end).read()
    assert isinstance(run, Run)
    assert run.count == len(list(split_run(run))) == 100
