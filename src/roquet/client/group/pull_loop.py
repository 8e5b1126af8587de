"""Reads one queue: one long poll after the other, as long as there is room for messages.

What follows from a pull:

    found, nothing new or matched  continue at the next offset
    the queue starts later         continue there; buffered messages stay valid
    the queue ends before          go back, as far as anything is unfinished; buffered messages
                                   are pulled again
    no progress                    pause, or the broker is asked without end
    no reply for two minutes       the consumer restarts the queue (`is_stuck`)
    refused or unreachable         see `recovery_of`; then the same pull again
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, final

from roquet.client.cluster.pulling import Pulled, PullOrder, PullStatus
from roquet.client.errors import ClientError, RequestRefused, Unreachable
from roquet.client.queue_ref import QueueRef
from roquet.clock import Clock
from roquet.net.service import OnFailure, Services
from roquet.protocol.codes import ResponseCode
from roquet.protocol.subscription import Subscription
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

# A broker answers so when it is overloaded for a moment.
_FLOW_CONTROL_PAUSE_S: Final = 0.02
_PULL: Final = "pull"


class Recovery(NamedTuple):
    """What to do before the next attempt. Without `pause_s` it is the pause of the consumer."""

    pause_s: float | None = None
    registers: bool = False
    renews_route: bool = False


_PAUSE: Final = Recovery()
_NOT_REGISTERED: Final = Recovery(registers=True)
_MOVED_AWAY: Final = Recovery(renews_route=True)
_RECOVERIES: Final[Mapping[int, Recovery]] = {
    ResponseCode.FLOW_CONTROL: Recovery(pause_s=_FLOW_CONTROL_PAUSE_S),
    # The broker does not know the group or its subscription, or knows an older one.
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
    """Whether the next pull has another offset than the one at `offset`, or may wait."""
    return pulled.status is PullStatus.NOTHING_NEW or pulled.next_offset != offset


def restart_offset(pulled: Pulled, offset: int, unfinished_offset: int) -> int:
    """Where to continue instead of at `offset`, which is beyond what the broker has.

    A reset by an operator counts as it is. But where the queue ends earlier than it did, as after a
    switch of masters, messages that are still being processed must not be skipped.
    """
    if _is_operators_reset(pulled, offset):
        return pulled.next_offset
    return min(pulled.next_offset, unfinished_offset)


def _is_operators_reset(pulled: Pulled, offset: int) -> bool:
    """A broker that has the offset names another one only if the group was moved."""
    return pulled.min_offset <= offset <= pulled.max_offset


class Intake(Protocol):
    """Where the messages of one queue go: what a loop calls."""

    def start_at(self, offset: int) -> None:
        """The first message has this offset, or a later one."""

    async def restart_at(self, offset: int) -> None:
        """The same, but buffered messages are discarded."""

    @property
    def unfinished_offset(self) -> int:
        """Everything before it is finished. Known since `start_at`."""

    async def until_room(self) -> None:
        """Returns when more may be pulled."""

    def order(self, subscription: Subscription, offset: int) -> PullOrder: ...

    async def take_in(self, pulled: Pulled, duration_s: float) -> None:
        """Everything before its next offset was pulled or skipped."""


@dataclass(frozen=True, slots=True)
class PullContext:
    """What all pull loops of a member share."""

    # Raises Unreachable or RequestRefused.
    pull: Callable[[PullOrder], Awaitable[Pulled]]
    renew_route: Callable[[str], None]
    services: Services
    clock: Clock
    error_pause_s: float
    # The subscription of a topic that brokers know.
    subscription_of: Callable[[str], Subscription | None]
    # Sends a heartbeat soon.
    register: Callable[[], None]
    note_error: Callable[[str], None]


@final
class PullLoop:
    """`start_offset` finds the first offset; it raises ClientError."""

    def __init__(
        self,
        queue: QueueRef,
        context: PullContext,
        intake: Intake,
        start_offset: Callable[[], Awaitable[int]],
    ) -> None:
        self.has_started = asyncio.Event()
        # The end of the queue, and when the last pull ended.
        self.max_offset: int | None = None
        self.pulled_s: float | None = None
        # When the current pull was sent.
        self._asked_s: float | None = None
        self._queue = queue
        self._context = context
        self._intake = intake
        self._start_offset = start_offset
        self._offset: int | None = None
        self._restart_at: int | None = None
        self._throttled = ThrottledLog(log, context.clock.monotonic_s)
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
        """Whether a pull has neither ended nor failed for longer than it may take."""
        asked_s = self._asked_s
        return asked_s is not None and self._context.clock.monotonic_s() - asked_s > silence_max_s

    def restart(self, offset: int) -> None:
        """Continues at that offset, as if nothing had been read."""
        self.stop()
        self._restart_at = offset
        self.start()

    async def _run(self) -> None:
        if self._restart_at is not None:
            await self._restart_intake(self._restart_at)
        elif self._offset is None:
            self._offset = await self._find_start()
            self._intake.start_at(self._offset)
        self.has_started.set()
        while True:
            await self._intake.until_room()
            assert self._offset is not None
            await self._pull(self._offset)

    async def _restart_intake(self, offset: int) -> None:
        # Set first: if it fails half way, it is repeated.
        self._restart_at = offset
        await self._intake.restart_at(offset)
        self._offset = offset
        self._restart_at = None

    async def _find_start(self) -> int:
        while True:
            try:
                return await self._start_offset()
            except ClientError as error:
                await self._recover(f"its start offset is not known yet: {error}")

    async def _pull(self, offset: int) -> None:
        context = self._context
        subscription = context.subscription_of(self._queue.topic)
        if subscription is None:
            await self._recover("no broker has its subscription yet")
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
        self._throttled.clear(_PULL)
        await self._follow(pulled, offset, self.pulled_s - begin_s)

    async def _follow(self, pulled: Pulled, offset: int, duration_s: float) -> None:
        if pulled.status is PullStatus.OUT_OF_RANGE:
            self._log_jump(pulled, offset)
        if pulled.status is PullStatus.OUT_OF_RANGE and pulled.next_offset < offset:
            unfinished_offset = self._intake.unfinished_offset
            await self._restart_intake(restart_offset(pulled, offset, unfinished_offset))
        else:
            self._offset = pulled.next_offset
            await self._intake.take_in(pulled, duration_s)
        if not has_progress(pulled, offset):
            await asyncio.sleep(self._context.error_pause_s)

    def _log_jump(self, pulled: Pulled, offset: int) -> None:
        """Why it continues at another offset than it asked for."""
        if _is_operators_reset(pulled, offset):
            log.info(
                "%s: an operator moved the group from %d to %d",
                self._queue,
                offset,
                pulled.next_offset,
            )
            return
        log.warning(
            "%s has no offset %d, but %d to %d: messages expired, or the topic was recreated; "
            "continuing at %d",
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
        context.note_error(f"pull of {self._queue} failed: {reason}")
        self._throttled.warning(_PULL, f"pull of {self._queue} failed, retrying: {reason}")
        await asyncio.sleep(context.error_pause_s if recovery.pause_s is None else recovery.pause_s)
