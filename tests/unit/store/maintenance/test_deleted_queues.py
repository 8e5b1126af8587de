from pathlib import Path

import pytest

from roquet.disk import SystemDisk
from roquet.state_file import BadStateFile
from roquet.store.maintenance.queue_deletion import DeletedQueues


def load(path: Path) -> DeletedQueues:
    deletions = DeletedQueues(SystemDisk(), path)
    deletions.load()
    return deletions


def test_deletions_are_remembered(tmp_path: Path) -> None:
    path = tmp_path / "deleted-queues.json"
    assert not load(path)
    load(path).add([(b"TopicA", 0), (b"TopicA", 1)], log_start=0, log_end=500)
    deletions = load(path)
    assert deletions
    assert deletions.end_of(b"TopicA", 1) == 500
    assert deletions.end_of(b"TopicA", 2) == 0
    deletions.add([(b"TopicA", 1)], log_start=0, log_end=900)
    assert (load(path).end_of(b"TopicA", 0), load(path).end_of(b"TopicA", 1)) == (500, 900)


def test_what_the_log_has_forgotten_need_not_be_remembered(tmp_path: Path) -> None:
    path = tmp_path / "deleted-queues.json"
    load(path).add([(b"TopicA", 0)], log_start=0, log_end=500)
    load(path).add([(b"TopicB", 0)], log_start=500, log_end=900)
    assert load(path).end_of(b"TopicA", 0) == 0
    assert load(path).end_of(b"TopicB", 0) == 900


def test_what_comes_behind_a_lost_tail_is_not_deleted(tmp_path: Path) -> None:
    path = tmp_path / "deleted-queues.json"
    load(path).add([(b"TopicA", 0), (b"TopicB", 0)], log_start=0, log_end=500)
    load(path).limit(500)
    assert load(path).end_of(b"TopicA", 0) == 500
    load(path).limit(300)
    assert load(path).end_of(b"TopicA", 0) == load(path).end_of(b"TopicB", 0) == 300


def test_what_was_deleted_in_a_part_of_the_log_that_does_not_count_is_not(tmp_path: Path) -> None:
    path = tmp_path / "deleted-queues.json"
    load(path).add([(b"TopicA", 0)], log_start=0, log_end=300)
    load(path).add([(b"TopicB", 0)], log_start=0, log_end=500)
    assert not load(path).revive(501)
    assert load(path).revive(500)
    assert (load(path).end_of(b"TopicA", 0), load(path).end_of(b"TopicB", 0)) == (300, 0)


def test_an_unreadable_list_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "deleted-queues.json"
    path.write_bytes(b"[{}]")
    with pytest.raises(BadStateFile):
        load(path)
