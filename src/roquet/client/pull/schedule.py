"""Work that is done for each queue of a consumer, again and again, as long as the queue is its own.

The program decides itself what to pull and when to come back; Java calls it scheduled pull.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, final

from roquet.client.queue_ref import QueueRef
from roquet.client.user_code import call_or
from roquet.net.service import OnFailure, Services

DELAY_S: Final = 0.2
_ERROR_DELAY_S: Final = 1.0

# Returns the seconds after which it wants to be called again; None leaves that to the schedule.
# A function runs in a thread, a coroutine in the event loop.
PullWork = Callable[[QueueRef], Awaitable[float | None] | float | None]


@final
class PullSchedule:
    """One task for each queue. What fails is logged, and tried again a little later."""

    def __init__(self, work: PullWork, delay_s: float, services: Services) -> None:
        self._work = work
        self._delay_s = delay_s
        self._services = services
        self._tasks: dict[QueueRef, asyncio.Task[None] | None] = {}

    def follow(self, queues: Sequence[QueueRef]) -> None:
        """These are the queues from now on."""
        for queue in self._tasks.keys() - set(queues):
            task = self._tasks.pop(queue)
            if task is not None:
                task.cancel()
        for queue in queues:
            if queue not in self._tasks:
                self._tasks[queue] = self._services.run(
                    f"work on {queue}", partial(self._run, queue), on_failure=OnFailure.RESTART
                )

    async def _run(self, queue: QueueRef) -> None:
        while True:
            after_error: float | None = _ERROR_DELAY_S
            pause_s = await call_or(after_error, self._work, queue)
            await asyncio.sleep(self._delay_s if pause_s is None else pause_s)
