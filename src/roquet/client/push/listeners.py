"""The listeners of a consumer, and what surrounds each call: hooks, a time limit, its outcome.

One listener for all topics, given when a consumer is made, or one for each topic, given to `on`.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import groupby
from typing import Any, Final, final

from roquet.client.arguments import check_listener, utc
from roquet.client.callbacks import EnteredContexts, call_all, error_of, is_coroutine_function
from roquet.client.errors import BadArgument
from roquet.client.hooks import ConsumeHook, ConsumeOutcome, Consuming
from roquet.client.push.delivery import Delivery, Workers
from roquet.client.push.outcome import NotDone, TooSlow
from roquet.client.received import ReceivedMessage
from roquet.clock import Clock
from roquet.protocol.bodies.clients import ConsumeResult, DirectConsumeResult

# A function runs in a thread, a coroutine in the event loop. Return values are ignored.
OneListener = Callable[[ReceivedMessage], object]
BatchListener = Callable[[list[ReceivedMessage]], object]
Listener = OneListener | BatchListener

_RESULTS: Final[Mapping[ConsumeOutcome, ConsumeResult]] = {
    ConsumeOutcome.SUCCESS: ConsumeResult.SUCCESS,
    ConsumeOutcome.FAILED: ConsumeResult.LATER,
    ConsumeOutcome.TIMED_OUT: ConsumeResult.LATER,
    ConsumeOutcome.RAISED: ConsumeResult.THROW_EXCEPTION,
}


@final
class Listeners:
    """`listener` is for all topics. Raises BadArgument for what cannot be called."""

    def __init__(self, listener: Listener | None, *, is_batch: bool) -> None:
        if listener is not None:
            check_listener("listener", listener)
        self._listener = listener
        self._is_batch = is_batch
        self._by_topic: dict[str, Any] = {}

    def __bool__(self) -> bool:
        return self._listener is not None or bool(self._by_topic)

    def add(self, topic: str, listener: Any) -> None:
        """Raises BadArgument."""
        check_listener("listener", listener)
        if self._listener is not None:
            raise BadArgument(
                "this consumer has a listener for all topics; use that one or `on`, not both"
            )
        kinds = {is_coroutine_function(each) for each in (listener, *self._by_topic.values())}
        if len(kinds) > 1:
            raise BadArgument("the listeners of a consumer must be all functions or all coroutines")
        self._by_topic[topic] = listener

    def one(self) -> Any:
        """A single listener for all messages; None if there is none."""
        if len(self._by_topic) <= 1:
            return next(iter(self._by_topic.values()), self._listener)
        if is_coroutine_function(next(iter(self._by_topic.values()))):
            return self._call_coroutine
        return self._call_function

    def _call_function(self, messages: Any) -> None:
        for listener, part in self._parts(messages):
            listener(part)

    async def _call_coroutine(self, messages: Any) -> None:
        for listener, part in self._parts(messages):
            await listener(part)

    def _parts(self, messages: Any) -> Iterator[tuple[Any, Any]]:
        """Each listener with its messages: a retry queue has those of all topics."""
        if not self._is_batch:
            yield self._by_topic[messages.topic], messages
            return
        for topic, part in groupby(messages, lambda message: message.topic):
            yield self._by_topic[topic], list(part)


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
        call_all(self._before, delivery.consuming)

    def around(self, delivery: Delivery) -> AbstractContextManager[object]:
        """Surrounds the call of the listener."""
        if not self._around or delivery.consuming is None:
            return nullcontext()
        return EnteredContexts(self._around, delivery.consuming)

    def after(self, delivery: Delivery, error: BaseException | None, duration_s: float) -> None:
        if (consuming := delivery.consuming) is None:
            return
        consuming.duration_s = duration_s
        consuming.outcome = outcome_of(error)
        consuming.error = error
        call_all(self._after, consuming)


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
    """Runs for ever: gives up deliveries that run for longer, when the oldest one is due."""
    while True:
        now_s = clock.monotonic_s()
        due_s = now_s + timeout_s  # of deliveries that start from now on
        for running in workers.running:
            if running.begin_s + timeout_s <= now_s:
                workers.give_up(running, timeout_s)
            else:
                due_s = min(due_s, running.begin_s + timeout_s)
        await asyncio.sleep(due_s - now_s)


async def called_directly(
    listener: Any, argument: ReceivedMessage | list[ReceivedMessage], clock: Clock, *, orderly: bool
) -> DirectConsumeResult:
    """Calls the listener for an operator, without hooks or time limit."""
    begin_s = clock.monotonic_s()
    error = await error_of(listener, argument)
    return DirectConsumeResult(
        consume_result=_RESULTS[outcome_of(error)],
        order=orderly,
        remark=None if error is None else repr(error),
        spent_time_mills=round((clock.monotonic_s() - begin_s) * 1000),
    )
