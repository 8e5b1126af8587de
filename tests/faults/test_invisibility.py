"""The ledger of a group finds each way in which its times and acks can be ignored."""

import pytest

from tests.faults.invisibility import Invisibility, Line, Outing

LINE = Line(0, "red")


def outing(
    body: bytes = b"red-0",
    *,
    received_s: float = 1.0,
    until_s: float = 3.0,
    offset: int = 0,
    line: Line | None = None,
) -> Outing:
    return Outing(body, received_s, [(received_s, until_s)], offset, line)


def acked(promise: Invisibility, given: Outing, now_s: float = 2.0) -> None:
    promise.begin_ack(given, now_s)
    promise.end_ack(given, now_s)


def found(promise: Invisibility, *due: bytes) -> list[str]:
    return list(promise.violations(due))


def test_what_is_received_again_in_its_time_and_acknowledged_is_no_violation() -> None:
    promise = Invisibility("group")
    promise.receive([outing()])
    again = outing(received_s=3.0, until_s=6.0)
    promise.receive([again])
    acked(promise, again, now_s=4.0)
    assert found(promise, b"red-0") == []


def test_a_message_that_comes_before_its_time_is_found() -> None:
    promise = Invisibility("group")
    promise.receive([outing()])
    promise.receive([outing(received_s=2.9)])
    assert len(promise.early) == 1


@pytest.mark.parametrize(("ack_s", "count"), [(2.0, 1), (3.0, 0)])
def test_a_message_that_comes_after_its_ack_is_found_unless_that_was_late(
    ack_s: float, count: int
) -> None:
    promise = Invisibility("group")
    first = outing()
    promise.receive([first])
    acked(promise, first, ack_s)
    promise.receive([outing(received_s=4.0)])
    assert len(promise.after_ack) == count


def test_a_message_that_never_comes_again_is_found() -> None:
    promise = Invisibility("group")
    promise.receive([outing()])
    assert [each[:3] for each in found(promise, b"red-0", b"red-1")] == ["I11"] * 2


def test_an_ack_without_an_answer_may_count_or_not() -> None:
    promise = Invisibility("group")
    first = outing()
    promise.receive([first])
    promise.begin_ack(first, now_s=2.0)
    assert found(promise, b"red-0") == []
    promise.receive([outing(received_s=3.0)])
    # It did not, so it has to be done once more.
    assert len(found(promise, b"red-0")) == 1


def test_a_refused_ack_does_not_count() -> None:
    promise = Invisibility("group")
    first = outing()
    promise.receive([first])
    promise.begin_ack(first, now_s=2.0)
    promise.refuse_ack(first)
    assert len(found(promise, b"red-0")) == 1


@pytest.mark.parametrize(("answered_s", "count"), [(2.1, 1), (None, 0), (3.1, 0)])
def test_a_longer_time_counts_if_its_answer_came_in_time(
    answered_s: float | None, count: int
) -> None:
    promise = Invisibility("group")
    first = outing()
    promise.receive([first])
    promise.begin_change(first, 9.0, now_s=2.0)
    if answered_s is not None:
        promise.end_change(first, 9.0, answered_s)
    promise.receive([outing(received_s=5.0)])
    assert len(promise.early) == count


def test_a_shorter_time_may_count_before_its_answer() -> None:
    promise = Invisibility("group")
    first = outing()
    promise.receive([first])
    promise.begin_change(first, 2.0, now_s=2.0)
    promise.receive([outing(received_s=2.1)])
    assert promise.early == []


def test_a_message_that_overtakes_one_that_is_out_is_found() -> None:
    promise = Invisibility("group")
    promise.receive([outing(line=LINE), outing(b"red-1", offset=1, line=LINE)])
    assert promise.overtaken == []
    promise.receive([outing(b"red-2", received_s=3.0, offset=2, line=LINE)])
    assert len(promise.overtaken) == 2


def test_those_of_another_message_group_do_not_wait() -> None:
    promise = Invisibility("group")
    promise.receive([outing(line=LINE)])
    promise.receive([outing(b"green-1", offset=1, line=Line(0, "green"))])
    assert promise.overtaken == []


def test_what_was_answered_after_a_cut_is_not_relied_on() -> None:
    promise = Invisibility("group")
    first, second = outing(), outing(b"red-1")
    promise.receive([first, second])
    acked(promise, first, now_s=1.5)
    acked(promise, second, now_s=2.0)
    known = promise.known_at(at_s=2.5, answered_by_s=1.8)
    known.receive([outing(received_s=3.0), outing(b"red-1", received_s=3.0)])
    assert [each[:8] for each in known.after_ack] == ["b'red-0'"]


@pytest.mark.parametrize(("at_s", "count"), [(2.0, 0), (2.2, 1)])
def test_a_time_that_was_changed_before_a_cut_counts_after_it(at_s: float, count: int) -> None:
    promise = Invisibility("group")
    first = outing()
    promise.receive([first])
    promise.begin_change(first, 9.0, now_s=1.5)
    promise.end_change(first, 9.0, now_s=2.1)
    known = promise.known_at(at_s, answered_by_s=at_s)
    known.receive([outing(received_s=5.0)])
    assert len(known.early) == count
