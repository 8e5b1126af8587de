"""A limit for messages each second, of a producer or of listeners."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar, final

from roquet.client.arguments import check_count, check_number, check_timeout
from roquet.client.errors import SendFailed
from roquet.client.middleware import Consume, ConsumeAsync, Middleware
from roquet.client.received import ReceivedMessage
from roquet.clock import Clock, SystemClock
from roquet.protocol.messages.message import Message

R = TypeVar("R")

WAIT_S_MAX: Final = 30.0
# One a day, and more than any client does.
PER_S_MIN: Final = 1 / 86_400
PER_S_MAX: Final = 1e6


@final
class RateLimit(Middleware):
    """Lets `per_s` messages pass each second, and `burst` of them at once after a pause.

    A send that would wait for longer than `wait_s_max` raises SendFailed. A listener waits: its
    consumer pulls no more than it has room for. That time is part of `consume_timeout_s`. An
    object that several clients of a process share is one limit for all of them. Raises BadArgument.

    For example:

        Producer("127.0.0.1:9876", "shop", middleware=[RateLimit(per_s=100, burst=10)])
    """

    def __init__(
        self,
        per_s: float,
        *,
        burst: int = 1,
        wait_s_max: float = WAIT_S_MAX,
        clock: Clock | None = None,
    ) -> None:
        check_number("per_s", per_s, PER_S_MIN, PER_S_MAX)
        check_count("burst", burst)
        check_timeout("wait_s_max", wait_s_max)
        self._interval_s = 1 / per_s
        self._slack_s = (burst - 1) * self._interval_s
        self._wait_s_max = wait_s_max
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        # When the next message is due if all come in equal intervals.
        self._due_s = self._clock.monotonic_s() - self._slack_s

    async def send(self, message: Message, call_next: Callable[[Message], Awaitable[R]]) -> R:
        wait_s = self.reserve(self._wait_s_max)
        if wait_s is None:
            reason = f"the rate limit would hold it for more than {self._wait_s_max:g} s"
            raise SendFailed(message.topic, reason)
        await asyncio.sleep(wait_s)
        return await call_next(message)

    def consume(self, message: ReceivedMessage, group: str, call_next: Consume) -> None:  # noqa: ARG002
        wait_s = self.reserve()
        if wait_s:
            threading.Event().wait(wait_s)
        call_next(message)

    async def consume_async(
        self,
        message: ReceivedMessage,
        group: str,  # noqa: ARG002
        call_next: ConsumeAsync,
    ) -> None:
        await asyncio.sleep(self.reserve() or 0.0)
        await call_next(message)

    def reserve(self, wait_s_max: float | None = None) -> float | None:
        """How long to wait for the next free place, which is taken; None takes none, because it
        would be too long."""
        with self._lock:
            now_s = self._clock.monotonic_s()
            due_s = max(self._due_s, now_s - self._slack_s)
            wait_s = max(0.0, due_s - now_s)
            if wait_s_max is not None and wait_s > wait_s_max:
                return None
            self._due_s = due_s + self._interval_s
            return wait_s
