"""Messages that are out: what is due when, and what the journal still needs."""

import pytest

from roquet.broker.pop.in_flight import CheckPoint, InFlight, Place, PopKey, QueueOfGroup

QUEUE = QueueOfGroup("workers", "orders", 3)


def point(
    start: int = 0, count: int = 2, *, due_ms: int = 100, place: int = 0, acked_bits: int = 0
) -> CheckPoint:
    return CheckPoint(
        PopKey(QUEUE, start, 7),
        range(start, start + count),
        60_000,
        due_ms=due_ms,
        place=Place(0, place),
        acked_bits=acked_bits,
    )


def test_what_is_due_for_longest_comes_first() -> None:
    in_flight = InFlight()
    late, early = point(0, due_ms=200), point(10, due_ms=100)
    in_flight.add(late)
    in_flight.add(early)
    assert in_flight.first_due(99) is None
    assert in_flight.first_due(100) is early
    in_flight.ack(early, (10, 11))
    assert in_flight.first_due(199) is None
    assert in_flight.first_due(200) is late


@pytest.mark.parametrize("count", [1, 31, 32, 33, 64, 65])
def test_as_many_messages_are_out_as_were_popped(count: int) -> None:
    in_flight = InFlight()
    one = point(count=count)
    in_flight.add(one)
    assert (in_flight.count, one.open_offsets) == (count, list(range(count)))
    in_flight.ack(one, (count - 1,))
    assert (one.acked_bits, in_flight.first_due(100)) == (
        1 << count - 1,
        one if count > 1 else None,
    )


def test_a_message_is_acknowledged_once() -> None:
    in_flight = InFlight()
    one = point()
    in_flight.add(one)
    assert in_flight.ack(one, (0,)) == 1
    assert in_flight.ack(one, (0, 5)) == 0
    assert (one.open_offsets, in_flight.count, in_flight.counts[QUEUE]) == ([1], 1, 1)


def test_the_last_ack_closes_a_check_point() -> None:
    in_flight = InFlight()
    one = point()
    in_flight.add(one)
    in_flight.ack(one, (0, 1))
    assert in_flight.find(one.key) is None
    assert (len(in_flight), in_flight.count, dict(in_flight.counts)) == (0, 0, {})
    assert in_flight.next_due_ms is None
    assert in_flight.oldest(0) is None


def test_the_oldest_open_check_point_is_known() -> None:
    in_flight = InFlight()
    first, second = point(0, place=4), point(10, place=5)
    in_flight.add(first)
    in_flight.add(second)
    assert in_flight.oldest(0) is first
    in_flight.ack(first, (0, 1))
    assert in_flight.oldest(0) is second
    assert in_flight.oldest(1) is None


def test_a_check_point_that_is_written_again_is_where_it_was_written_last() -> None:
    in_flight = InFlight()
    first, second = point(0, place=4), point(10, place=5)
    in_flight.add(first)
    in_flight.add(second)
    in_flight.add(point(0, place=6, acked_bits=0b10))
    assert in_flight.oldest(0) is second
    in_flight.ack(second, (10, 11))
    assert in_flight.oldest(0) is first
    assert (first.place.offset, first.open_offsets, in_flight.count) == (6, [0], 1)


def test_a_postponed_check_point_is_due_later() -> None:
    in_flight = InFlight()
    one = point(due_ms=100)
    in_flight.add(one)
    in_flight.postpone(one, 300)
    assert in_flight.first_due(299) is None
    assert in_flight.first_due(300) is one


def test_what_is_closed_does_not_stay_in_memory() -> None:
    in_flight = InFlight()
    for number in range(10_000):
        one = point(number, 1, due_ms=number, place=number)
        in_flight.add(one)
        in_flight.ack(one, (number,))
    assert len(in_flight._due) <= 1025
    in_flight.oldest(0)
    assert not in_flight._noted[0]


def test_a_check_point_with_nothing_out_is_not_kept() -> None:
    in_flight = InFlight()
    in_flight.add(point(acked_bits=0b11))
    in_flight.add(point(20, 0))
    assert (len(in_flight), in_flight.count) == (0, 0)
