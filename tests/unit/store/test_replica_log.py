"""A store that becomes the copy of another one, byte by byte."""

from collections.abc import Iterator
from pathlib import Path
from shutil import copytree

import pytest

from roquet.broker.replication.frames import FrameReader
from roquet.store.errors import NotMaster, ReplicaMismatch
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.golden_replication import SIZES, log_bytes, master_store, recorded
from tests.support.raising import raises
from tests.support.stores import bodies, crash, open_store, opened

TOPIC = "TopicA"


@pytest.fixture
def master(tmp_path: Path) -> Iterator[MessageStore]:
    with opened(tmp_path / "master") as store:
        yield store


@pytest.fixture
def slave(tmp_path: Path) -> Iterator[MessageStore]:
    with opened(tmp_path / "slave") as store:
        yield store


def fill(store: MessageStore, count: int, *, size: int = 300) -> None:
    for number in range(count):
        store.append(draft(b"%d" % number * size, queue_id=number % 2))


def send(
    master: MessageStore, slave: MessageStore, *, piece_size: int, end: int | None = None
) -> None:
    """All that the master has, in pieces of this size, as its files let them be cut."""
    copy = slave.follow()
    position = copy.begin()
    end = master.log_end if end is None else end
    while position < end:
        with master.log_view(position, min(piece_size, end - position)) as view:
            copy.write([(position, view)])
            position += len(view)
        copy.grow()


@pytest.mark.parametrize("piece_size", [1, 7, 100, 1000, 4096])
def test_the_copy_is_exact_however_it_was_cut(
    tmp_path: Path, master: MessageStore, slave: MessageStore, piece_size: int
) -> None:
    fill(master, 12)
    send(master, slave, piece_size=piece_size)
    assert slave.log_end == master.log_end
    assert bodies(slave) == bodies(master)
    assert bodies(slave, queue_id=1) == bodies(master, queue_id=1)
    assert used(tmp_path / "slave") == used(tmp_path / "master")


def used(root: Path) -> dict[str, bytes]:
    """The files of the log but for those that were made ahead of need."""
    return {name: data for name, data in log_bytes(root).items() if any(data)}


def test_records_of_a_master_that_makes_no_checksums_are_good(tmp_path: Path) -> None:
    with opened(tmp_path / "master", write_checksums=False) as master:
        for number in range(5):
            master.append(draft(b"%d" % number, has_checksum=False))
        with opened(tmp_path / "slave") as slave:
            send(master, slave, piece_size=100)
            assert bodies(slave) == bodies(master)
        with opened(tmp_path / "slave") as slave:
            assert bodies(slave) == bodies(master)


def test_queues_that_have_grown_are_named(master: MessageStore, slave: MessageStore) -> None:
    fill(master, 2)
    copy = slave.follow()
    with master.log_view(0, master.log_end) as view:
        copy.write([(0, view)])
    assert copy.grow().queues == {(TOPIC.encode(), 0), (TOPIC.encode(), 1)}
    assert copy.grow().queues == set()


def test_half_a_record_is_never_read(master: MessageStore, slave: MessageStore) -> None:
    fill(master, 2)
    first_end = master.entries(TOPIC, 1, 0, 1)[0].physical_offset
    send(master, slave, piece_size=50, end=master.log_end - 1)
    assert slave.log_end == first_end
    assert slave.max_offset(TOPIC, 1) == 0


@pytest.mark.parametrize("is_crashed", [False, True])
def test_half_a_record_is_gone_after_a_restart_and_comes_again(
    tmp_path: Path, master: MessageStore, is_crashed: bool
) -> None:
    fill(master, 3)
    root = tmp_path / "other"
    slave = open_store(root)
    send(master, slave, piece_size=100, end=master.log_end - 10)
    if is_crashed:
        crash(slave)
    else:
        slave.close()
    with opened(root) as slave:
        assert slave.recovery is not None
        assert slave.recovery.damages == ()
        assert bool(slave.recovery.cut_size) == is_crashed
        send(master, slave, piece_size=100)
        assert bodies(slave) == bodies(master)


def test_a_copy_starts_where_the_other_log_does(
    tmp_path: Path, master: MessageStore, slave: MessageStore
) -> None:
    fill(master, 30)
    start = 8192
    copy = slave.follow()
    position = start
    while position < master.log_end:
        with master.log_view(position, 4096) as view:
            copy.write([(position, view)])
            position += len(view)
    copy.grow()
    assert slave.log_start == start
    assert slave.min_offset(TOPIC, 0) > 0
    assert bodies(slave)[-1] == bodies(master)[-1]
    assert "0" * 20 not in log_bytes(tmp_path / "slave")


def test_what_does_not_continue_the_copy_is_refused(
    master: MessageStore, slave: MessageStore
) -> None:
    fill(master, 3)
    send(master, slave, piece_size=4096)
    copy = slave.follow()
    with raises(ReplicaMismatch, setting=None):
        copy.write([(slave.log_end + 1, memoryview(b"x"))])


@pytest.mark.parametrize("piece_size", [4096, 512])
@pytest.mark.parametrize("file_size", [2048, 16384])
def test_files_of_another_size_are_refused_with_a_remedy(
    tmp_path: Path, master: MessageStore, file_size: int, piece_size: int
) -> None:
    """Also when no piece lies across the end of a file: a record does, which is no damage."""
    fill(master, 15)
    with (
        opened(tmp_path / "other", commit_log_file_size=file_size) as slave,
        raises(ReplicaMismatch, setting="mappedFileSizeCommitLog"),
    ):
        send(master, slave, piece_size=piece_size)


def test_a_record_that_starts_in_the_last_bytes_of_a_file_is_refused_with_a_remedy(
    tmp_path: Path, master: MessageStore
) -> None:
    file_size = 2048
    empty_size = draft(b"").size
    master.append(draft(bytes(file_size - empty_size - 4)))
    fill(master, 2)
    with (
        opened(tmp_path / "other", commit_log_file_size=file_size) as slave,
        raises(ReplicaMismatch, setting="mappedFileSizeCommitLog"),
    ):
        send(master, slave, piece_size=512)


def test_a_copy_that_starts_in_the_middle_of_a_file_is_refused(slave: MessageStore) -> None:
    with raises(ReplicaMismatch, setting="mappedFileSizeCommitLog"):
        slave.follow().write([(100, memoryview(b"x"))])


def test_a_copy_takes_no_messages(slave: MessageStore) -> None:
    slave.follow()
    with pytest.raises(NotMaster):
        slave.append(draft())


def test_damage_of_the_master_is_copied_skipped_and_logged(
    tmp_path: Path, master: MessageStore, slave: MessageStore
) -> None:
    fill(master, 6)
    damaged = master.entries(TOPIC, 0, 1, 1)[0]
    master._log.file_at(0).mapping[damaged.physical_offset + 100] ^= 1  # type: ignore[union-attr]
    copy = slave.follow()
    with master.log_view(0, master.log_end) as view:
        copy.write([(0, view)])
    grown = copy.grow()
    assert [(each.start, each.end) for each in grown.damages] == [
        (damaged.physical_offset, damaged.physical_offset + damaged.size)
    ]
    assert slave.log_end == master.log_end
    assert len(bodies(slave)) == len(bodies(slave, queue_id=1)) - 1
    assert used(tmp_path / "slave") == used(tmp_path / "master")


def test_what_was_behind_damage_at_the_end_of_a_file_comes_again(
    tmp_path: Path, master: MessageStore, slave: MessageStore
) -> None:
    """The link may be lost while nothing good has come since."""
    fill(master, 16)
    last = max(
        entry.physical_offset
        for queue_id in (0, 1)
        for entry in master.entries(TOPIC, queue_id, 0, 16)
        if entry.physical_offset < 4096
    )
    master._log.file_at(0).mapping[last + 100] ^= 1  # type: ignore[union-attr]
    send(master, slave, piece_size=4096, end=4096 + 50)
    assert slave.log_end == last
    send(master, slave, piece_size=4096)
    assert slave.log_end == master.log_end
    assert used(tmp_path / "slave") == used(tmp_path / "master")


def test_keys_of_what_was_copied_are_found(master: MessageStore, slave: MessageStore) -> None:
    master.append(draft(b"1", properties={"KEYS": "first"}))
    master.append(draft(b"2", properties={"KEYS": "second"}))
    send(master, slave, piece_size=4096)
    found = slave.query(TOPIC, "second", 10, 0, 2**62)
    assert len(found.records) == 1


def test_a_queue_that_started_again_at_the_master_does_so_here(
    master: MessageStore, slave: MessageStore
) -> None:
    fill(master, 4)
    master.delete_topic(TOPIC)
    master.append(draft(b"new"))
    send(master, slave, piece_size=4096)
    assert bodies(slave) == [b"new"]


def test_the_stream_of_an_apache_master_makes_its_store(tmp_path: Path) -> None:
    frames = FrameReader()
    with opened(tmp_path / "slave", **SIZES) as slave:
        copy = slave.follow()
        for data in recorded("master"):
            copy.write(frames.pieces(memoryview(data)))
            assert copy.grow().damages == []
        assert slave.log_end == 50817
    original = master_store(tmp_path)
    assert used(tmp_path / "slave") == used(original)
    copytree(original, tmp_path / "opened")
    with (
        opened(tmp_path / "opened", **SIZES) as master,
        opened(tmp_path / "slave", **SIZES) as slave,
    ):
        for topic, queue_ids in master.queues().items():
            for queue_id in queue_ids:
                assert bodies(slave, topic, queue_id) == bodies(master, topic, queue_id)


@pytest.mark.parametrize("cut_bytes", [0, 1, 50])
def test_a_copy_that_leads_continues_after_its_last_whole_record(
    tmp_path: Path, master: MessageStore, cut_bytes: int
) -> None:
    slave = open_store(tmp_path / "slave")
    fill(master, 11)
    whole = master.log_end
    fill(master, 1)
    send(master, slave, piece_size=100, end=whole + cut_bytes)
    slave.lead()
    assert slave.log_end == whole
    slave.append(draft(b"its own"))
    assert bodies(slave) == [*bodies(master)[:6], b"its own"]
    crash(slave)
    with opened(tmp_path / "slave") as again:
        assert again.recovery is not None
        assert again.recovery.cut_size == 0
        assert bodies(again)[-1] == b"its own"


def test_a_store_that_pauses_takes_nothing_until_it_continues(master: MessageStore) -> None:
    master.pause()
    with pytest.raises(NotMaster):
        master.append(draft(b"1"))
    master.go_on()
    master.append(draft(b"2"))
    assert bodies(master) == [b"2"]
