"""The history finds each way in which clients can be lied to."""

import pytest

from tests.faults.history import Acknowledged, Delivery, History

QUEUE = ("broker-a", 0)


def kept() -> History:
    """Two messages that were sent, stored and delivered as they should be."""
    history = History()
    for offset, body in enumerate((b"plain-0", b"plain-1")):
        history.attempted.add(body)
        history.acknowledged.append(
            Acknowledged(QUEUE, offset, body, begun_s=offset, ended_s=offset + 0.5)
        )
        delivery = Delivery(body, QUEUE, offset)
        history.deliver("group", delivery, now_s=9.0)
        history.deliver_in_order(delivery)
    history.found = {QUEUE: {0: b"plain-0", 1: b"plain-1"}}
    return history


def test_what_is_kept_is_no_violation() -> None:
    assert kept().violations() == []


def test_a_lost_message_is_found() -> None:
    history = kept()
    del history.found[QUEUE][1]
    assert history.violations() == ["I1: b'plain-1' is lost at ('broker-a', 0) 1"]


def test_another_message_at_an_acknowledged_offset_is_found() -> None:
    history = kept()
    history.attempted.add(b"plain-2")
    history.found[QUEUE][1] = b"plain-2"
    assert any(each.startswith("I4") for each in history.violations())


def test_a_message_that_was_never_sent_is_found() -> None:
    history = kept()
    history.deliver("group", Delivery(b"plain-7", QUEUE, 0), now_s=9.0)
    assert history.violations() == ["I2: b'plain-7' was never sent"]


def test_a_message_that_was_rolled_back_is_found() -> None:
    history = kept()
    history.rolled_back.add(b"plain-1")
    assert "I2: b'plain-1' was rolled back" in history.violations()


def test_an_offset_below_one_that_was_acknowledged_before_is_found() -> None:
    history = kept()
    first, second = history.acknowledged
    history.acknowledged = [first._replace(begun_s=2.0, ended_s=3.0), second]
    assert [each[:2] for each in history.violations()] == ["I3"]


def test_sends_at_the_same_time_may_have_any_order() -> None:
    history = kept()
    first, second = history.acknowledged
    history.acknowledged = [first._replace(begun_s=1.2, ended_s=3.0), second]
    assert history.violations() == []


def test_an_offset_that_a_reader_passed_over_is_found() -> None:
    history = kept()
    del history.in_order[QUEUE][0]
    assert [each[:2] for each in history.violations()] == ["I3"]


def test_a_reader_may_go_back() -> None:
    history = kept()
    history.in_order[QUEUE] *= 2
    assert history.violations() == []


def test_a_hole_is_found() -> None:
    history = kept()
    history.attempted.add(b"plain-3")
    history.found[QUEUE][3] = b"plain-3"
    assert [each[:2] for each in history.violations()] == ["I4"]


def test_a_committed_offset_that_goes_back_is_found() -> None:
    history = kept()
    history.committed[QUEUE] += [1, 2, 1]
    assert [each[:2] for each in history.violations()] == ["I5"]


def test_a_message_that_never_came_is_found() -> None:
    history = kept()
    history.delivered["others"][b"plain-0"] = 1
    assert history.violations() == ["I6: b'plain-1' was never delivered"]


@pytest.mark.parametrize(("now_s", "count"), [(4.9, 1), (5.0, 0)])
def test_a_message_that_comes_early_is_found(now_s: float, count: int) -> None:
    history = kept()
    history.attempted.add(b"delayed-2")
    history.promised[b"delayed-2"] = 5.0
    history.deliver("group", Delivery(b"delayed-2", QUEUE, 2), now_s)
    assert len(history.violations()) == count


@pytest.mark.parametrize(("due_s", "count"), [(4.9, 0), (5.0, 1)])
def test_what_goes_by_the_wall_may_come_early(due_s: float, count: int) -> None:
    history = kept()
    history.attempted.add(b"delayed-2")
    history.promised[b"delayed-2"] = due_s
    history.wait_by_the_wall(5.0)
    history.deliver("group", Delivery(b"delayed-2", QUEUE, 2), now_s=4.0)
    assert len(history.violations()) == count
