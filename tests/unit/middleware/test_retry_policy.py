"""When a failed message is tried again, and when it is given up."""

from datetime import timedelta
from typing import Any

import pytest

from roquet import (
    Admin,
    BadArgument,
    DeadLetter,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    RetryLater,
    StartFrom,
)
from roquet.client.middleware import surrounded
from roquet.middleware import RetryPolicy
from roquet.testing import BlockingCluster
from tests.support.delivered import delivered
from tests.support.eventually import wait_until
from tests.support.raising import raises

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def failing(error: Exception, policy: RetryPolicy) -> Any:
    def bill(message: ReceivedMessage) -> None:
        raise error

    return surrounded(bill, [policy], "billing")


@pytest.mark.parametrize(("retry_count", "delay"), [(0, SECOND), (1, MINUTE)])
def test_each_retry_has_its_delay(retry_count: int, delay: timedelta) -> None:
    listen = failing(KeyError("x"), RetryPolicy(SECOND, MINUTE))
    with pytest.raises(RetryLater) as raised:
        listen(delivered(retry_count=retry_count))
    assert raised.value.delay == delay
    assert isinstance(raised.value.__cause__, KeyError)


def test_after_the_last_delay_it_is_a_dead_letter_with_the_error() -> None:
    listen = failing(KeyError("x"), RetryPolicy(SECOND, MINUTE))
    with pytest.raises(DeadLetter, match=r"KeyError: 'x' \(after 3 tries\)"):
        listen(delivered(retry_count=2))


def test_a_fatal_error_is_a_dead_letter_at_once() -> None:
    with pytest.raises(DeadLetter, match="ValueError: no number"):
        failing(ValueError("no number"), RetryPolicy(SECOND, fatal=(ValueError,)))(delivered())


def test_without_delays_the_broker_decides_about_other_errors() -> None:
    with pytest.raises(RetryLater) as raised:
        failing(KeyError("x"), RetryPolicy(fatal=(ValueError,)))(delivered(retry_count=9))
    assert raised.value.delay is None


@pytest.mark.parametrize("outcome", [RetryLater(MINUTE), DeadLetter("mine")])
def test_what_the_listener_decides_counts(outcome: Exception) -> None:
    with pytest.raises(type(outcome)) as raised:
        failing(outcome, RetryPolicy(SECOND))(delivered(retry_count=5))
    assert raised.value is outcome


async def test_coroutines_are_retried_as_well() -> None:
    async def bill(message: ReceivedMessage) -> None:
        raise KeyError("x")

    with pytest.raises(RetryLater):
        await surrounded(bill, [RetryPolicy(SECOND)], "billing")(delivered())


@pytest.mark.parametrize(
    ("delays", "fatal", "argument"),
    [
        ((), (), "delays"),
        ((5,), (), "delay"),
        ((timedelta(days=1),), (), "delay"),
        ((), ValueError, "fatal"),
        ((), ("ValueError",), "fatal"),
    ],
)
def test_what_is_no_policy_is_refused(delays: Any, fatal: Any, argument: str) -> None:
    with raises(BadArgument, argument=argument):
        RetryPolicy(*delays, fatal=fatal)


@pytest.mark.slow
def test_a_consumer_obeys_it() -> None:
    tries: list[int] = []

    def bill(message: ReceivedMessage) -> None:
        tries.append(message.retry_count)
        raise KeyError("no such order")

    with BlockingCluster() as cluster:
        reading = PushConsumer(
            cluster.name_server,
            "billing",
            bill,
            start_from=StartFrom.FIRST,
            middleware=[RetryPolicy(SECOND)],
        )
        reading.subscribe("orders")
        with (
            Producer(cluster.name_server, "shop") as producer,
            Admin(cluster.name_server) as admin,
            reading,
        ):
            producer.send(Message("orders", b"1"))
            wait_until(lambda: admin.dead_letter_counts().get("billing"))
            (letter,) = admin.dead_letters("billing")
    assert tries == [0, 1]
    assert letter.dlq_reason is not None
    assert letter.dlq_reason.reason == "KeyError: 'no such order' (after 2 tries)"
