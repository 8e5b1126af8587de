"""Queue locks of orderly consumers."""

from roquet.broker.tables.queue_locks import LOCK_TIME_S, LockTable, QueueKey
from roquet.net.errors import TableFull
from tests.support.fake_clock import FakeClock
from tests.support.raising import raises

QUEUES = [QueueKey("group", "orders", queue_id) for queue_id in range(3)]


def test_a_queue_has_one_owner_at_a_time() -> None:
    locks = LockTable(FakeClock())
    assert locks.lock("a", QUEUES[:2]) == QUEUES[:2]
    assert locks.lock("b", QUEUES) == QUEUES[2:]
    assert locks.lock("a", QUEUES) == QUEUES[:2]


def test_groups_do_not_lock_each_other_out() -> None:
    locks = LockTable(FakeClock())
    locks.lock("a", QUEUES)
    others = [queue._replace(group="other") for queue in QUEUES]
    assert locks.lock("b", others) == others


def test_a_lock_ends_by_itself_unless_it_is_renewed() -> None:
    clock = FakeClock()
    locks = LockTable(clock)
    locks.lock("a", QUEUES[:2])
    clock.advance(LOCK_TIME_S - 1)
    locks.lock("a", QUEUES[:1])
    clock.advance(2)
    assert locks.lock("b", QUEUES[:2]) == QUEUES[1:2]


def test_only_the_owner_can_unlock() -> None:
    locks = LockTable(FakeClock())
    locks.lock("a", QUEUES)
    locks.unlock("b", QUEUES)
    assert locks.lock("c", QUEUES) == []
    locks.unlock("a", QUEUES[:1])
    assert locks.lock("b", QUEUES) == QUEUES[:1]


def test_ended_locks_are_forgotten_and_living_ones_kept() -> None:
    clock = FakeClock()
    locks = LockTable(clock)
    locks.lock("a", QUEUES[:1])
    clock.advance(LOCK_TIME_S + 1)
    locks.lock("b", QUEUES[1:])
    locks.forget_ended()
    assert len(locks._locks) == 2
    assert locks.lock("c", QUEUES) == QUEUES[:1]


def test_there_is_a_bound_and_what_has_ended_makes_room() -> None:
    clock = FakeClock()
    locks = LockTable(clock, count_max=2)
    assert locks.lock("a", QUEUES[:2]) == QUEUES[:2]
    with raises(TableFull, limit=2, setting="maxQueueLocks"):
        locks.lock("a", QUEUES)
    assert len(locks) == 2
    assert locks.lock("a", QUEUES[:2]) == QUEUES[:2]
    clock.advance(LOCK_TIME_S + 1)
    assert locks.lock("b", QUEUES[2:]) == QUEUES[2:]
    assert len(locks) == 1
