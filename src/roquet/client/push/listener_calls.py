"""What surrounds each call of a listener: hooks before and after, and its time limit.

And calls out of turn, which have neither.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, final

from roquet.client.hooks import ConsumeHook, ConsumeOutcome, Consuming
from roquet.client.moments import utc
from roquet.client.push.delivery import Delivery, Workers
from roquet.client.push.outcome import NotDone, TooSlow
from roquet.client.received import ReceivedMessage
from roquet.client.user_code import Surroundings, error_of, tell
from roquet.clock import Clock
from roquet.protocol.bodies.clients import ConsumeResult, DirectConsumeResult

_RESULTS: Final[Mapping[ConsumeOutcome, ConsumeResult]] = {
    ConsumeOutcome.SUCCESS: ConsumeResult.SUCCESS,
    ConsumeOutcome.FAILED: ConsumeResult.LATER,
    ConsumeOutcome.TIMED_OUT: ConsumeResult.LATER,
    ConsumeOutcome.RAISED: ConsumeResult.THROW_EXCEPTION,
}


@final
class ConsumeHooks:
    """The hooks of one consumer; false if it has none."""

    def __init__(self, hooks: Sequence[ConsumeHook], group: str, clock: Clock) -> None:
        self._before = [hook.before_consume for hook in hooks]
        self._after = [hook.after_consume for hook in hooks]
        self._around = [
            hook.around_listener
            for hook in hooks
            if type(hook).around_listener is not ConsumeHook.around_listener
        ]
        self._group = group
        self._clock = clock

    def __bool__(self) -> bool:
        return bool(self._before)

    def before(self, delivery: Delivery) -> None:
        delivery.consuming = Consuming(
            self._group, delivery.feed.queue, delivery.messages, utc(self._clock.now_ms())
        )
        tell(self._before, delivery.consuming)

    def around(self, delivery: Delivery) -> AbstractContextManager[object]:
        """For whoever calls the listener, around that call."""
        if not self._around or delivery.consuming is None:
            return nullcontext()
        return Surroundings(self._around, delivery.consuming)

    def after(self, delivery: Delivery, error: BaseException | None, duration_s: float) -> None:
        if (consuming := delivery.consuming) is None:
            return
        consuming.duration_s = duration_s
        consuming.outcome = outcome_of(error)
        consuming.error = error
        tell(self._after, consuming)


def outcome_of(error: BaseException | None) -> ConsumeOutcome:
    match error:
        case None:
            return ConsumeOutcome.SUCCESS
        case TooSlow():
            return ConsumeOutcome.TIMED_OUT
        case NotDone():
            return ConsumeOutcome.FAILED
        case _:
            return ConsumeOutcome.RAISED


async def keep_in_time(workers: Workers, timeout_s: float, clock: Clock) -> None:
    """Gives up what runs for longer, for ever. Looks when the oldest one may be due."""
    while True:
        now_s = clock.monotonic_s()
        due_s = now_s + timeout_s  # of what begins from now on
        for running in workers.running:
            if running.begin_s + timeout_s <= now_s:
                workers.give_up(running, timeout_s)
            else:
                due_s = min(due_s, running.begin_s + timeout_s)
        await asyncio.sleep(due_s - now_s)


async def called_directly(
    listener: Any, argument: ReceivedMessage | list[ReceivedMessage], clock: Clock, *, orderly: bool
) -> DirectConsumeResult:
    """What an operator hears of a call out of turn."""
    begin_s = clock.monotonic_s()
    error = await error_of(listener, argument)
    return DirectConsumeResult(
        consume_result=_RESULTS[outcome_of(error)],
        order=orderly,
        remark=None if error is None else repr(error),
        spent_time_mills=round((clock.monotonic_s() - begin_s) * 1000),
    )
