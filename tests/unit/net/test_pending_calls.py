"""Responses find their calls, and calls their end."""

import asyncio

import pytest

from roquet.net.pending_calls import PendingCall, PendingCalls
from roquet.protocol.command import Command
from tests.support.busy import busy_for
from tests.support.eventually import eventually


class Held:
    def __init__(self) -> None:
        self.expired: list[PendingCall] = []
        self.loop = asyncio.get_running_loop()
        self.receive_count = 0
        self.calls = PendingCalls(self.loop, self._expire, lambda: self.receive_count)

    def _expire(self, call: PendingCall, late_s: float) -> None:
        self.expired.append(call)
        self.late_s = late_s

    def start(self, timeout_s: float = 10) -> PendingCall:
        return self.begin_until(self.loop.time() + timeout_s)

    def begin_until(self, deadline_s: float) -> PendingCall:
        return self.calls.start(10, 10, deadline_s, 0)


async def test_a_response_finds_its_call_whatever_the_order() -> None:
    held = Held()
    first, second = held.start(), held.start()
    assert first.opaque != second.opaque
    assert held.calls.accept(Command(0, second.opaque, remark="second"))
    assert held.calls.accept(Command(0, first.opaque, remark="first"))
    assert (await first.response).remark == "first"
    assert (await second.response).remark == "second"
    assert len(held.calls.by_opaque) == 0


async def test_a_response_is_accepted_once() -> None:
    held = Held()
    call = held.start()
    assert held.calls.accept(Command(0, call.opaque))
    assert not held.calls.accept(Command(0, call.opaque))
    assert not held.calls.accept(Command(0, 12345))


async def test_numbers_stay_within_31_bits() -> None:
    held = Held()
    held.calls._opaques = iter(range(2**31 - 1, 2**31 + 1))  # type: ignore[assignment]
    assert [held.calls.next_opaque(), held.calls.next_opaque()] == [2**31 - 1, 0]


@pytest.mark.parametrize("apart_s", [0.02, 0.0001], ids=["one by one", "found at once"])
async def test_calls_expire_in_the_order_of_their_deadlines(apart_s: float) -> None:
    held = Held()
    first_s = held.loop.time() + 0.01
    late, early, ended = (held.begin_until(first_s + n * apart_s) for n in (2, 1, 0))
    held.calls.end(ended)
    await eventually(lambda: len(held.expired) == 2)
    assert held.expired == [early, late]
    assert len(held.calls.by_opaque) == 0


async def test_a_program_that_was_busy_takes_what_was_received_before_anything_expires() -> None:
    held = Held()
    first, second, third = held.start(0.01), held.start(0.01), held.start(0.01)
    busy_for(0.05)

    def receive(call: PendingCall) -> None:
        held.receive_count += 1
        held.calls.accept(Command(0, call.opaque))
        if call is first:
            # As a socket with more than one read takes.
            held.loop.call_later(0, receive, second)

    held.loop.call_later(0, receive, first)
    assert (await first.response).code == 0
    assert (await second.response).code == 0
    await eventually(lambda: held.expired == [third])
    assert held.late_s > 0.03


async def test_all_fail_together_and_nothing_expires_later() -> None:
    held = Held()
    call, answered = held.start(0.01), held.start(0.01)
    answered.response.set_result(Command(0))
    held.calls.fail_all(lambda: OSError("gone"))
    with pytest.raises(OSError, match="gone"):
        await call.response
    other = Held()
    other.start(0.02)
    await eventually(lambda: other.expired)
    assert held.expired == []
