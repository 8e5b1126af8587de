"""Which questions are asked again, and for how long."""

import time
from datetime import timedelta

import pytest

from roquet.client.errors import (
    ClientError,
    NoNameServer,
    RequestRefused,
    TopicNotFound,
    Unreachable,
)
from roquet.pipeline.connections import may_pass, retried, retry_time
from roquet.protocol.codes import ResponseCode

A_LITTLE = timedelta(milliseconds=200)
FOR_LONG = timedelta(minutes=10)
NOT_AT_ALL = timedelta()

MISSING = TopicNotFound("orders", "no broker has it")
NOT_NOW = TopicNotFound("orders", "nobody can be asked for it", is_missing=False)


def refused(code: int) -> RequestRefused:
    return RequestRefused("broker:10911", code, None)


@pytest.mark.parametrize(
    ("error", "in_the_middle", "at_the_beginning"),
    [
        (NoNameServer(["silence"]), True, True),
        (Unreachable("broker-a", "silence"), True, True),
        (NOT_NOW, True, True),
        (MISSING, True, False),
        (refused(ResponseCode.TOPIC_NOT_EXIST), True, False),
        (refused(ResponseCode.SYSTEM_BUSY), True, True),
        (refused(ResponseCode.FLOW_CONTROL), True, True),
        (refused(ResponseCode.NO_PERMISSION), False, False),
        # What brokers of 4.9 say to who has not signed.
        (refused(ResponseCode.SYSTEM_ERROR), False, False),
    ],
    ids=str,
)
def test_a_missing_topic_is_waited_for_less_when_a_query_starts(
    error: ClientError, in_the_middle: bool, at_the_beginning: bool
) -> None:
    assert may_pass(error) is in_the_middle
    at_first = retry_time(error, FOR_LONG, is_starting=True)
    assert retry_time(error, FOR_LONG) == (FOR_LONG if in_the_middle else NOT_AT_ALL)
    assert (at_first == FOR_LONG) is at_the_beginning
    assert (at_first > NOT_AT_ALL) is in_the_middle


def test_a_question_is_asked_until_it_is_answered() -> None:
    errors: list[ClientError] = [Unreachable("broker-a", "silence"), NOT_NOW, MISSING]

    def ask() -> str:
        if errors:
            raise errors.pop()
        return "answer"

    assert retried(ask, FOR_LONG) == "answer"


def test_what_does_not_pass_is_raised_at_once() -> None:
    count = 0

    def ask() -> None:
        nonlocal count
        count += 1
        raise refused(ResponseCode.NO_PERMISSION)

    with pytest.raises(RequestRefused):
        retried(ask, FOR_LONG)
    assert count == 1


def test_what_does_not_pass_in_time_is_raised_as_it_was_last() -> None:
    count = 0

    def ask() -> None:
        nonlocal count
        count += 1
        raise Unreachable("broker-a", f"silence {count}")

    with pytest.raises(Unreachable) as raised:
        retried(ask, A_LITTLE)
    assert count > 1
    assert raised.value.reason == f"silence {count}"


def test_the_last_attempt_is_when_the_time_is_up() -> None:
    """A broker that restarted in nine of ten seconds used to come too late."""
    asked_s: list[float] = []

    def ask() -> None:
        asked_s.append(time.monotonic())
        raise Unreachable("broker-a", "silence")

    with pytest.raises(Unreachable):
        retried(ask, A_LITTLE)
    assert asked_s[-1] - asked_s[0] >= A_LITTLE.total_seconds()
