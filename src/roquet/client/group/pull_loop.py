"""Reads one queue: one long poll after the other, as long as there is room for what they bring.

What follows from a pull, whoever pulls:

    found, nothing new or wanted   go on behind it
    the queue begins later         go on there; what is here already stays wanted
    the queue ends before          go back; what is here comes again
    no progress                    pause, or the broker is asked without end
    neither, for two minutes       the consumer begins anew (`is_stuck`)
    refused or unreachable         as `recovery_of` says, then the same again
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, final

from roquet.client.errors import ClientError, RequestRefused, Unreachable
from roquet.client.group.pulling import Pulled, PullOrder, PullStatus
from roquet.client.queue_ref import QueueRef
from roquet.clock import Clock
from roquet.net.service import OnFailure, Services
from roquet.protocol.codes import ResponseCode
from roquet.protocol.subscription import Subscription

log = logging.getLogger(__name__)

# A broker that has too much to do says so, and means a moment.
_FLOW_CONTROL_PAUSE_S: Final = 0.02


class Recovery(NamedTuple):
    """What helps before the next try. Without a pause of its own, it is that of the consumer."""

    pause_s: float | None = None
    registers: bool = False
    renews_route: bool = False


_PAUSE: Final = Recovery()
_NOT_REGISTERED: Final = Recovery(registers=True)
_MOVED_AWAY: Final = Recovery(renews_route=True)
_RECOVERIES: Final[Mapping[int, Recovery]] = {
    ResponseCode.FLOW_CONTROL: Recovery(pause_s=_FLOW_CONTROL_PAUSE_S),
    # The broker does not know the group or what it wants, or knows something older.
    ResponseCode.SUBSCRIPTION_NOT_EXIST: _NOT_REGISTERED,
    ResponseCode.SUBSCRIPTION_NOT_LATEST: _NOT_REGISTERED,
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: _NOT_REGISTERED,
    ResponseCode.FILTER_DATA_NOT_EXIST: _NOT_REGISTERED,
    ResponseCode.FILTER_DATA_NOT_LATEST: _NOT_REGISTERED,
    ResponseCode.TOPIC_NOT_EXIST: _MOVED_AWAY,
    ResponseCode.NO_PERMISSION: _MOVED_AWAY,
}


def recovery_of(error: ClientError) -> Recovery:
    match error:
        case Unreachable():
            return _MOVED_AWAY
        case RequestRefused():
            return _RECOVERIES.get(error.code, _PAUSE)
        case _:
            return _PAUSE


def has_progress(pulled: Pulled, offset: int) -> bool:
    """Whether the next pull asks for something other than the one at `offset`, or may wait."""
    return pulled.status is PullStatus.NOTHING_NEW or pulled.next_offset != offset


class Intake(Protocol):
    """Where the messages of one queue go."""

    def begin(self, offset: int) -> None:
        """The first message that comes is the one at this offset, or behind it."""

    async def begin_again(self, offset: int) -> None:
        """The same, but nothing that is here is wanted any more."""

    async def until_room(self) -> None:
        """Returns when more may be pulled."""

    def order(self, subscription: Subscription, offset: int) -> PullOrder: ...

    async def take_in(self, pulled: Pulled, duration_s: float) -> None:
        """Nothing of interest is left before its next offset."""


@dataclass(frozen=True, slots=True)
class PullContext:
    """What all loops of a member use."""

    # Raises Unreachable or RequestRefused.
    pull: Callable[[PullOrder], Awaitable[Pulled]]
    renew_route: Callable[[str], None]
    services: Services
    clock: Clock
    error_pause_s: float
    # What brokers know to be wanted of a topic.
    subscription_of: Callable[[str], Subscription | None]
    # Sends a heartbeat soon.
    register: Callable[[], None]
    note_error: Callable[[str], None]


@final
class PullLoop:
    """`start_offset` is asked when it is not known where to begin; it raises ClientError."""

    def __init__(
        self,
        queue: QueueRef,
        context: PullContext,
        intake: Intake,
        start_offset: Callable[[], Awaitable[int]],
    ) -> None:
        self.has_begun = asyncio.Event()
        # The end of the queue and the time, when its broker was last heard.
        self.max_offset: int | None = None
        self.pulled_s: float | None = None
        # When the pull that is under way began.
        self._asked_s: float | None = None
        self._queue = queue
        self._context = context
        self._intake = intake
        self._start_offset = start_offset
        self._offset: int | None = None
        self._restart_at: int | None = None
        self._is_failing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = self._context.services.run(
            f"read {self._queue}", self._run, on_failure=OnFailure.RESTART
        )

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            self._task = None
            self._asked_s = None

    def is_stuck(self, silence_max_s: float) -> bool:
        """Whether a pull has neither ended nor failed for longer than any should take."""
        asked_s = self._asked_s
        return asked_s is not None and self._context.clock.monotonic_s() - asked_s > silence_max_s

    def restart(self, offset: int) -> None:
        """Goes on at that offset, as if nothing had been read."""
        self.stop()
        self._restart_at = offset
        self.start()

    async def _run(self) -> None:
        if self._restart_at is not None:
            await self._begin_again(self._restart_at)
        elif self._offset is None:
            self._offset = await self._found_start()
            self._intake.begin(self._offset)
        self.has_begun.set()
        while True:
            await self._intake.until_room()
            assert self._offset is not None
            await self._pull(self._offset)

    async def _begin_again(self, offset: int) -> None:
        # Noted first: if it fails half way, it is done anew.
        self._restart_at = offset
        await self._intake.begin_again(offset)
        self._offset = offset
        self._restart_at = None

    async def _found_start(self) -> int:
        while True:
            try:
                return await self._start_offset()
            except ClientError as error:
                await self._recover(f"where it begins is not known yet: {error}")

    async def _pull(self, offset: int) -> None:
        context = self._context
        subscription = context.subscription_of(self._queue.topic)
        if subscription is None:
            await self._recover("nothing is wanted of it yet")
            return
        begin_s = self._asked_s = context.clock.monotonic_s()
        try:
            pulled = await context.pull(self._intake.order(subscription, offset))
        except (RequestRefused, Unreachable) as error:
            self._asked_s = None
            await self._recover(str(error), recovery_of(error))
            return
        self._asked_s = None
        self.pulled_s = context.clock.monotonic_s()
        self.max_offset = pulled.max_offset
        self._is_failing = False
        await self._follow(pulled, offset, self.pulled_s - begin_s)

    async def _follow(self, pulled: Pulled, offset: int, duration_s: float) -> None:
        if pulled.status is PullStatus.OUT_OF_RANGE:
            self._say_why(pulled, offset)
        if pulled.status is PullStatus.OUT_OF_RANGE and pulled.next_offset < offset:
            await self._begin_again(pulled.next_offset)
        else:
            self._offset = pulled.next_offset
            await self._intake.take_in(pulled, duration_s)
        if not has_progress(pulled, offset):
            await asyncio.sleep(self._context.error_pause_s)

    def _say_why(self, pulled: Pulled, offset: int) -> None:
        """Why it goes on somewhere else than it wanted to."""
        if pulled.min_offset <= offset <= pulled.max_offset:
            log.info(
                "%s: an operator moved the group from %d to %d",
                self._queue,
                offset,
                pulled.next_offset,
            )
            return
        log.warning(
            "%s has no offset %d, but %d to %d: messages expired, or the topic was made anew; "
            "going on at %d",
            self._queue,
            offset,
            pulled.min_offset,
            pulled.max_offset,
            pulled.next_offset,
        )

    async def _recover(self, reason: str, recovery: Recovery = _PAUSE) -> None:
        context = self._context
        if recovery.registers:
            context.register()
        if recovery.renews_route:
            context.renew_route(self._queue.topic)
        context.note_error(f"pull of {self._queue}: {reason}")
        level = logging.DEBUG if self._is_failing else logging.WARNING
        log.log(level, "pull of %s: %s; trying on", self._queue, reason)
        self._is_failing = True
        await asyncio.sleep(context.error_pause_s if recovery.pause_s is None else recovery.pause_s)
