"""Choosing queues: by turns, by key as Java does, and away from brokers in trouble."""

import pytest

from roquet.client.errors import NoTimers, NotYetSafe, RequestRefused
from roquet.client.producer.queue_choice import (
    DEFAULT_RULES,
    RETRY_CODES,
    AttemptFailed,
    FaultTable,
    RetryRules,
    is_worth_retrying,
    may_retry,
    out_time_s,
    pause_before,
    pick_queue,
    queue_of_key,
)
from roquet.client.queue_ref import QueueRef
from roquet.net.errors import BadAddress, CallTimedOut, ConnectFailed, ConnectionLost
from roquet.protocol.codes import ResponseCode

QUEUES = [QueueRef("t", broker, queue_id) for broker in "ab" for queue_id in range(4)]


def queue_numbers(*turns: int, avoid: str | None = None) -> list[int]:
    return [QUEUES.index(pick_queue(QUEUES, turn, avoid)) for turn in turns]


def test_queues_take_turns() -> None:
    assert queue_numbers(0, 1, 7, 8, 9) == [0, 1, 7, 0, 1]


def test_the_broker_that_failed_is_skipped() -> None:
    assert queue_numbers(0, 1, 4, avoid="a") == [4, 5, 4]


def test_the_only_broker_is_taken_although_it_failed() -> None:
    assert pick_queue(QUEUES[:4], 1, "a") == QUEUES[1]


@pytest.mark.parametrize(
    ("key", "java_hash"),
    [
        ("order-123456789", -1902235530),
        ("订单", 1129459),
        ("", 0),
        (7, 7),
        (-7, -7),
        (2**31 - 1, 2**31 - 1),
        (-(2**31), -(2**31)),
        # A Java Long: both halves mixed.
        (2**31, -(2**31)),
        (2**32 + 5, 4),
        (-(2**31) - 1, -(2**31)),
    ],
)
@pytest.mark.parametrize("count", [1, 3, 8])
def test_a_key_chooses_the_queue_that_java_chooses(
    key: str | int, java_hash: int, count: int
) -> None:
    # Java's remainder has the sign of its left side, and the sign is dropped.
    assert queue_of_key(QUEUES[:count], key) == QUEUES[abs(java_hash) % count]


def test_what_another_broker_may_accept_is_worth_a_retry() -> None:
    codes = {code for code in ResponseCode if is_worth_retrying(RequestRefused("a:1", code, None))}
    assert codes == RETRY_CODES == {1, 2, 14, 16, 17, 204, 205}


@pytest.mark.parametrize(
    ("error", "is_worth"),
    [
        (ConnectFailed("a:1", "r"), True),
        (ConnectionLost("a:1", "r"), True),
        (CallTimedOut("a:1", 310, 1), True),
        (BadAddress("a"), False),
        (NoTimers("a:1"), False),
    ],
)
def test_what_the_network_did_is_worth_a_retry(error: AttemptFailed, is_worth: bool) -> None:
    assert is_worth_retrying(error) is is_worth


def test_a_producer_may_have_other_codes_that_are_worth_a_retry() -> None:
    rules = RetryRules(codes={ResponseCode.MESSAGE_ILLEGAL})
    codes = {
        code for code in ResponseCode if is_worth_retrying(RequestRefused("a:1", code, None), rules)
    }
    assert codes == {ResponseCode.MESSAGE_ILLEGAL}


@pytest.mark.parametrize("not_safe", [False, True])
def test_what_is_stored_but_not_safe_is_sent_again_only_if_wanted(not_safe: bool) -> None:
    assert is_worth_retrying(NotYetSafe("t", "r", ()), RetryRules(not_safe=not_safe)) is not_safe


def test_pauses_grow_up_to_a_second() -> None:
    assert 0 < pause_before(1) < pause_before(2) < pause_before(10) == pause_before(100) == 1


def test_what_reached_no_broker_is_tried_until_the_time_is_over() -> None:
    nobody, silent = ConnectFailed("a", "nobody"), CallTimedOut("a", 310, 1)
    assert may_retry([], 1, DEFAULT_RULES)
    assert may_retry([nobody] * 100, 3, DEFAULT_RULES)
    assert may_retry([nobody, silent, nobody, silent], 3, DEFAULT_RULES)
    assert not may_retry([nobody, silent, silent, silent], 3, DEFAULT_RULES)
    assert not may_retry([nobody], 1, DEFAULT_RULES)  # Of a queue that was chosen for its order.


@pytest.mark.parametrize(
    ("latency_ms", "out_s"),
    [
        *((0, 0), (49.9, 0), (50, 0), (100, 0), (549.9, 0)),
        *((550, 30), (999, 30), (1000, 60), (1999, 60), (2000, 120)),
        *((3000, 180), (14_999, 180), (15_000, 600), (1_000_000, 600)),
    ],
)
def test_slow_brokers_stay_out_by_the_table(latency_ms: float, out_s: int) -> None:
    assert out_time_s(latency_ms) == out_s


def test_a_broker_that_failed_is_out_for_ten_minutes() -> None:
    faults = FaultTable()
    faults.note("a", 3, 1000.0, has_failed=True)
    assert not faults.is_available("a", 1599.9)
    assert faults.is_available("a", 1600.0)
    assert faults.is_available("b", 0.0)


def test_only_available_brokers_take_turns() -> None:
    faults = FaultTable()
    faults.note("a", 600, 0.0, has_failed=False)
    assert [faults.pick(QUEUES, turn, 1.0) for turn in (0, 5)] == [QUEUES[4], QUEUES[5]]
    assert faults.pick(QUEUES, 0, 30.0) == QUEUES[0]


def test_when_all_are_out_the_less_slow_half_takes_over() -> None:
    faults = FaultTable()
    faults.note("a", 2000, 0.0, has_failed=False)
    faults.note("b", 600, 0.0, has_failed=False)
    assert [faults.pick(QUEUES, turn, 1.0) for turn in range(3)] == [
        *(QUEUES[4], QUEUES[5], QUEUES[6])
    ]


def test_a_broker_without_queues_of_the_topic_is_forgotten() -> None:
    faults = FaultTable()
    faults.note("gone", 600, 0.0, has_failed=False)
    faults.note("a", 2000, 0.0, has_failed=False)
    faults.note("b", 2000, 0.0, has_failed=False)
    assert faults.pick(QUEUES, 3, 1.0) == QUEUES[3]
    assert faults.is_available("gone", 1.0)
