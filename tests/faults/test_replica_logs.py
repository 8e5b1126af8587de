"""The judge of copies sees what it is for."""

import shutil
from pathlib import Path

import pytest

from tests.faults.history import Acknowledged, History
from tests.faults.replica_logs import LiveLog, ReplicaCheck
from tests.support.drafts import draft
from tests.support.stores import open_store

TOPIC = "traffic"
BODIES = [b"plain-%03d" % number for number in range(100)]


def written(root: Path, bodies: list[bytes]) -> list[Acknowledged]:
    """A log of many files, and what whoever sent its messages was acknowledged."""
    store = open_store(root)
    acknowledged = []
    for number, body in enumerate(bodies):
        appended = store.append(draft(body, topic=TOPIC))
        acknowledged.append(Acknowledged(("pair", 0), appended.queue_offset, body, number, number))
    store.close()
    return acknowledged


@pytest.fixture
def check(tmp_path: Path) -> ReplicaCheck:
    """Of two that are the same."""
    history = History(acknowledged=written(tmp_path / "master", BODIES))
    shutil.copytree(tmp_path / "master", tmp_path / "slave")
    master, slave = (LiveLog(tmp_path / name) for name in ("master", "slave"))
    return ReplicaCheck(TOPIC, history, master, slave, is_sync=True)


def invariants_of(check: ReplicaCheck) -> set[str]:
    return {each.partition(":")[0] for each in check.violations}


def last_file(check: ReplicaCheck, tmp_path: Path) -> tuple[Path, int]:
    """Of the slave's log, and where its last record ends there."""
    check.slave.look()
    path = max((tmp_path / "slave" / "commitlog").iterdir())
    end = check.slave.end - int(path.name)
    check.slave = LiveLog(tmp_path / "slave")
    return path, end


def test_a_true_copy_is_fine(check: ReplicaCheck) -> None:
    check.look()
    check.compare_all()
    assert check.violations == []
    assert len(check.slave.found) == len(BODIES)


def test_what_was_acknowledged_and_is_not_copied_is_seen(
    check: ReplicaCheck, tmp_path: Path
) -> None:
    shutil.rmtree(tmp_path / "slave")
    written(tmp_path / "slave", BODIES[:-1])
    check.slave = LiveLog(tmp_path / "slave")
    check.look()
    assert any("plain-099" in each for each in check.violations)
    assert "C1" in invariants_of(check)


def test_half_a_record_is_none(check: ReplicaCheck, tmp_path: Path) -> None:
    path, end = last_file(check, tmp_path)
    content = bytearray(path.read_bytes())
    content[end - 10 : end] = bytes(10)
    path.write_bytes(content)
    check.look()
    assert invariants_of(check) == {"C1"}


def test_what_no_slave_was_waited_for_may_come_later(check: ReplicaCheck, tmp_path: Path) -> None:
    path, end = last_file(check, tmp_path)
    path.write_bytes(path.read_bytes()[: end - 10] + bytes(path.stat().st_size - end + 10))
    check.is_sync = False
    check.look()
    assert check.violations == []
    # But it has to come.
    check.compare_all()
    assert invariants_of(check) == {"C2"}


def test_another_log_is_no_copy(check: ReplicaCheck, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "slave")
    written(tmp_path / "slave", [body.upper() for body in BODIES])
    check.is_sync = False
    check.look()
    assert invariants_of(check) == {"C2"}


def test_it_continues_where_it_was(check: ReplicaCheck, tmp_path: Path) -> None:
    check.look()
    store = open_store(tmp_path / "master")
    store.append(draft(b"more", topic=TOPIC))
    store.close()
    check.history.acknowledged.append(Acknowledged(("pair", 0), len(BODIES), b"more", 0, 0))
    check.look()
    assert len(check.violations) == 1
    assert "more" in check.violations[0]
