import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.disk import Disk, SystemDisk
from roquet.store.commit_log import CommitLog
from roquet.store.keys.key_index import KeyIndex, KeyIndexConfig
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk
from tests.support.raising import raises

FOREVER = 2**60


@pytest.fixture
def log(tmp_path: Path) -> Iterator[CommitLog]:
    log = CommitLog(SystemDisk(), tmp_path / "commitlog", 4096)
    log.resume()
    yield log
    log.close()


def open_index(
    root: Path,
    log: CommitLog,
    disk: Disk | None = None,
    *,
    was_clean: bool = True,
    until: int = 0,
    distrusted: list[int] | None = None,
) -> KeyIndex:
    config = KeyIndexConfig(slot_count=7, entry_count=20)
    index = KeyIndex(disk or SystemDisk(), root / "index", FakeClock(), config)
    ignored: list[int] = []
    note = (ignored if distrusted is None else distrusted).append
    index.load(log, was_clean=was_clean, index_timestamp=until, distrust=note)
    # What tests append to the log they do not note down, unless they say so.
    index.is_following = False
    return index


def append(log: CommitLog, *keys: str, index: KeyIndex | None = None) -> list[int]:
    """One message for each text of keys, stored a second apart."""
    offsets = []
    for text in keys:
        timestamp = log.last_store_timestamp + 1000
        message = draft(properties={"UNIQ_KEY": f"id-of-{text}", "KEYS": text})
        offsets.append(log.append(message, 0, timestamp))
        if index is not None:
            index.unfiled.append(offsets[-1])
    return offsets


def find(index: KeyIndex, key: str, count_max: int = 64) -> list[int]:
    return index.find("TopicA", key, 0, FOREVER, count_max)


def test_messages_are_found_by_each_key_newest_first(tmp_path: Path, log: CommitLog) -> None:
    index = open_index(tmp_path, log)
    offsets = append(log, "a b", "b", "größe")
    assert index.catch_up(log)
    assert find(index, "a") == [offsets[0]]
    assert find(index, "b") == [offsets[1], offsets[0]]
    assert find(index, "größe") == [offsets[2]]
    assert find(index, "id-of-b") == [offsets[1]]
    assert find(index, "c") == []
    index.close()


def test_messages_are_found_in_all_files_within_their_time(tmp_path: Path, log: CommitLog) -> None:
    index = open_index(tmp_path, log)
    offsets = append(log, *["k"] * 30)
    assert index.catch_up(log)
    assert len(list((tmp_path / "index").iterdir())) == 4
    assert find(index, "k") == offsets[::-1]
    assert find(index, "k", count_max=5) == offsets[:-6:-1]
    assert index.find("TopicA", "k", 8_000, 15_000, 64) == offsets[7:15][::-1]
    index.close()


def test_a_backlog_is_filed_bit_by_bit(tmp_path: Path, log: CommitLog) -> None:
    index = open_index(tmp_path, log)
    offsets = append(log, *"abcde")
    assert not index.catch_up(log, count_max=2)
    assert (find(index, "b"), find(index, "c")) == ([offsets[1]], [])
    assert not index.catch_up(log, count_max=2)
    assert index.catch_up(log, count_max=2)
    assert find(index, "e") == [offsets[4]]
    index.close()


def test_what_is_noted_down_is_filed_with_the_next_batch(tmp_path: Path, log: CommitLog) -> None:
    index = open_index(tmp_path, log)
    append(log, "a")
    assert index.catch_up(log)
    assert index.is_following
    offsets = append(log, "b", "c", index=index)
    assert find(index, "b") == []
    index.file_unfiled(log)
    assert find(index, "b") == [offsets[0]]
    assert index.next_offset == log.end
    assert index.unfiled == []
    index.close()


def test_a_following_index_is_the_same_as_one_made_from_the_log(
    tmp_path: Path, log: CommitLog
) -> None:
    following = open_index(tmp_path / "1", log)
    assert following.catch_up(log)
    for _ in range(9):
        append(log, *"abcd", index=following)
        following.file_unfiled(log)
    later = open_index(tmp_path / "2", log)
    assert later.catch_up(log)
    contents = [
        [path.read_bytes() for path in sorted((tmp_path / name / "index").iterdir())]
        for name in "12"
    ]
    assert contents[0] == contents[1]
    following.close()
    later.close()


def test_rolled_back_messages_are_not_filed(tmp_path: Path, log: CommitLog) -> None:
    index = open_index(tmp_path, log)
    log.append(draft(properties={"KEYS": "rolled"}, sys_flag=12), 0, 1)
    prepared = log.append(draft(properties={"KEYS": "prepared"}, sys_flag=4), 0, 1)
    assert index.catch_up(log)
    assert find(index, "rolled") == []
    assert find(index, "prepared") == [prepared]
    index.close()


def test_a_damaged_record_is_passed_over(tmp_path: Path, log: CommitLog) -> None:
    index = open_index(tmp_path, log)
    offsets = append(log, *"abc")
    log.files[0].mapping[offsets[1] + 90] ^= 1
    log.files[0].is_verified = False
    while not index.catch_up(log):
        pass
    assert find(index, "a") == [offsets[0]]
    assert find(index, "b") == []
    assert find(index, "c") == [offsets[2]]
    index.close()


@pytest.mark.parametrize("count", [3, 5, 19, 20])
def test_a_clean_index_continues_where_it_was(tmp_path: Path, log: CommitLog, count: int) -> None:
    index = open_index(tmp_path, log)
    append(log, *["k"] * count)
    assert index.catch_up(log)
    index.close()
    offsets = append(log, "x", "y")
    index = open_index(tmp_path, log)
    assert index.catch_up(log)
    assert find(index, "x") == [offsets[0]]
    assert find(index, "y") == [offsets[1]]
    assert len(set(find(index, "k"))) == count
    index.close()


def test_after_a_crash_files_that_were_not_synced_are_made_again(
    tmp_path: Path, log: CommitLog
) -> None:
    index = open_index(tmp_path, log)
    offsets = append(log, *["k"] * 25)
    assert index.catch_up(log)
    index.close()
    names = sorted(path.name for path in (tmp_path / "index").iterdir())
    for path in (tmp_path / "index").iterdir():
        if path.name != names[0]:
            path.write_bytes(path.read_bytes()[:40] + b"\x01" * (path.stat().st_size - 40))
    index = open_index(tmp_path, log, was_clean=False, until=12_000)
    assert [path.name for path in (tmp_path / "index").iterdir()] == names[:1]
    assert index.catch_up(log)
    assert sorted(set(find(index, "k"))) == offsets
    index.close()


@pytest.mark.parametrize("until", [0, 5_000])
def test_after_a_crash_a_file_that_grew_in_the_millisecond_of_the_sync_is_made_again(
    tmp_path: Path, log: CommitLog, until: int
) -> None:
    index = open_index(tmp_path, log)
    offsets = append(log, *["k"] * 5)
    assert index.catch_up(log)
    index.close()
    # There is a newer file, but what the older one should hold did not reach the disk.
    (path,) = (tmp_path / "index").iterdir()
    path.with_name(path.name + "1").write_bytes(b"")
    header = path.read_bytes()[:40] if until else bytes(40)
    path.write_bytes(header + bytes(path.stat().st_size - 40))
    index = open_index(tmp_path, log, was_clean=False, until=until)
    assert index.catch_up(log)
    assert sorted(find(index, "k")) == offsets
    index.close()


def test_an_index_that_knows_more_than_the_log_is_made_again(
    tmp_path: Path, log: CommitLog
) -> None:
    index = open_index(tmp_path, log)
    offsets = append(log, *"abc")
    assert index.catch_up(log)
    index.close()
    log.cut(offsets[2])
    index = open_index(tmp_path, log)
    assert index.catch_up(log)
    assert find(index, "b") == [offsets[1]]
    assert find(index, "c") == []
    index.close()


@pytest.mark.parametrize("damage", ["size", "header"])
def test_a_damaged_file_is_made_again_with_all_newer_ones(
    tmp_path: Path, log: CommitLog, damage: str
) -> None:
    index = open_index(tmp_path, log)
    offsets = append(log, *["k"] * 25)
    assert index.catch_up(log)
    index.close()
    second = sorted((tmp_path / "index").iterdir())[1]
    content = bytearray(second.read_bytes())
    if damage == "size":
        content.pop()
    else:
        content[36:40] = b"\x7f\xff\xff\xff"
    second.write_bytes(content)
    index = open_index(tmp_path, log)
    assert index.catch_up(log)
    assert sorted(set(find(index, "k"))) == offsets
    index.close()


def test_files_of_messages_that_are_gone_are_forgotten(tmp_path: Path, log: CommitLog) -> None:
    index = open_index(tmp_path, log)
    append(log, *["k"] * 60)
    assert index.catch_up(log)
    before = len(find(index, "k"))
    gone = index.forget(log.files[1].start)
    assert 0 < len(gone) < before
    for file in gone:
        file.remove()
    assert len(find(index, "k")) < before
    for file in index.forget(FOREVER):
        file.remove()
    assert len(list((tmp_path / "index").iterdir())) == 1
    index.close()


def test_a_full_disk_delays_filing_and_loses_nothing(tmp_path: Path, log: CommitLog) -> None:
    disk = FaultyDisk(tmp_path)
    index = open_index(tmp_path, log, disk)
    assert index.catch_up(log)
    disk.is_full = True
    offsets = append(log, *"abc", index=index)
    index.file_unfiled(log)
    assert not index.is_following
    assert index.unfiled == []
    with raises(OSError, errno=errno.ENOSPC):
        index.catch_up(log)
    disk.is_full = False
    assert index.catch_up(log)
    assert find(index, "a") == [offsets[0]]
    index.close()


def test_a_sync_covers_files_and_their_names(tmp_path: Path, log: CommitLog) -> None:
    disk = FaultyDisk(tmp_path)
    index = open_index(tmp_path, log, disk)
    append(log, *["k"] * 25)
    assert index.catch_up(log)
    index.sync()
    assert [path for path in disk.unsynced() if path.parent.name == "index"] == []
    index.close()


def test_a_checkpoint_has_a_time_between_two_files(tmp_path: Path, log: CommitLog) -> None:
    """After a crash Apache files again from that time on, and removes whatever is newer."""
    index = open_index(tmp_path, log)
    append(log, "k")
    assert index.catch_up(log)
    assert index.sync() == 0
    append(log, *["k"] * 24, index=index)
    assert index.catch_up(log)
    full_timestamp = index.sync()
    assert 0 < full_timestamp < log.last_store_timestamp
    index.close()
    first, *newer = sorted((tmp_path / "index").iterdir())
    distrusted: list[int] = []
    open_index(tmp_path, log, was_clean=False, until=full_timestamp, distrusted=distrusted).close()
    # The last full one is made again and will end later, so its old end does not count.
    assert distrusted
    assert distrusted[0] < full_timestamp
    assert first.exists()
    assert not any(path.exists() for path in newer)


def test_file_names_grow_even_when_the_clock_stands_still(tmp_path: Path, log: CommitLog) -> None:
    index = open_index(tmp_path, log)
    append(log, *["k"] * 40)
    assert index.catch_up(log)
    names = sorted(path.name for path in (tmp_path / "index").iterdir())
    assert all(len(name) == 17 and name.isdigit() for name in names)
    assert len(names) == 5
    index.close()
