"""How many messages pass each second, by a clock that tests move."""

from typing import Any

import pytest

from roquet import BadArgument, Message, ReceivedMessage, SendFailed
from roquet.client.middleware import SendChain, surrounded
from roquet.middleware import RateLimit
from tests.support.delivered import delivered
from tests.support.fake_clock import FakeClock
from tests.support.raising import raises


def test_messages_pass_in_equal_intervals() -> None:
    limit = RateLimit(10, clock=FakeClock())
    assert [limit.reserve() for _ in range(3)] == pytest.approx([0, 0.1, 0.2])


def test_a_burst_passes_at_once_and_no_more_than_that() -> None:
    clock = FakeClock()
    limit = RateLimit(10, burst=3, clock=clock)
    assert [limit.reserve() for _ in range(4)] == pytest.approx([0, 0, 0, 0.1])
    clock.advance(1000)
    assert [limit.reserve() for _ in range(4)] == pytest.approx([0, 0, 0, 0.1])


async def test_a_send_that_would_wait_too_long_is_refused_and_takes_no_place() -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    limit = RateLimit(0.01, wait_s_max=1, clock=FakeClock())
    chain = SendChain([limit])
    await chain(Message("orders", b"1"), send)
    for _ in range(2):
        with pytest.raises(SendFailed, match="hold it for more than 1 s"):
            await chain(Message("orders", b"2"), send)
    assert len(sent) == 1
    assert limit.reserve() == pytest.approx(100)


async def test_listeners_of_both_kinds_pass() -> None:
    got: list[bytes] = []

    async def bill(message: ReceivedMessage) -> None:
        got.append(message.body)

    await surrounded(bill, [RateLimit(1000)], "billing")(delivered(b"1"))
    listen = surrounded(lambda message: got.append(message.body), [RateLimit(1000)], "billing")
    listen(delivered(b"2"))
    listen(delivered(b"3"))
    assert got == [b"1", b"2", b"3"]


@pytest.mark.parametrize("per_s", [0, -1, True, "10", None])
def test_what_is_no_rate_is_refused(per_s: Any) -> None:
    with raises(BadArgument, argument="per_s"):
        RateLimit(per_s)
