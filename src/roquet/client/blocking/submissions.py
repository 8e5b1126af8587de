"""Sends that a blocking program does not wait for: each is a future, and there is a bound.

Threads put them into a line, and the loop is woken once for all that stand in it.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, NamedTuple, final

from roquet.client.blocking.loop_thread import LoopThread
from roquet.client.errors import BadArgument, NotOpen, SendFailed, SendUnknown, UsedAfterFork
from roquet.client.producer.receipt import SendReceipt

Send = Callable[[], Coroutine[Any, Any, SendReceipt]]


class _Submission(NamedTuple):
    topic: str
    size: int
    send: Send
    future: Future[SendReceipt]


@final
class Submissions:
    """Of one producer. Bounded in count and bytes: one more makes its thread wait.

    Something larger than the bound goes when nothing else is under way, or it never could.
    """

    def __init__(self, thread: LoopThread, count_max: int, size_max: int) -> None:
        self._thread = thread
        self._count_max = count_max
        self._size_max = size_max
        self._count = 0
        self._size = 0
        self._has_room = threading.Condition()
        self._line: deque[_Submission] = deque()
        self._is_woken = False
        # Nobody else holds them while they run.
        self._tasks: set[asyncio.Task[SendReceipt]] = set()

    def submit(self, topic: str, size: int, send: Send, timeout_s: float) -> Future[SendReceipt]:
        """In any thread. Raises SendFailed without room in time, NotOpen or UsedAfterFork."""
        self._enter(topic, size, timeout_s)
        future: Future[SendReceipt] = Future()
        submission = _Submission(topic, size, send, future)
        self._line.append(submission)
        if not self._is_woken:
            self._is_woken = True
            try:
                self._thread.post(self._begin)
            except (BadArgument, NotOpen, UsedAfterFork):
                self._is_woken = False
                self._line.remove(submission)
                self._leave(size)
                raise
        return future

    def _begin(self) -> None:
        """In the loop."""
        # Before the line is looked at: whoever comes after the look has to wake it again.
        self._is_woken = False
        loop = asyncio.get_running_loop()
        while self._line:
            submission = self._line.popleft()
            if not submission.future.set_running_or_notify_cancel():
                self._leave(submission.size)
                continue
            task = loop.create_task(submission.send())
            self._tasks.add(task)
            task.add_done_callback(partial(self._end, submission))

    def _end(self, submission: _Submission, task: asyncio.Task[SendReceipt]) -> None:
        self._tasks.discard(task)
        self._leave(submission.size)
        future = submission.future
        if task.cancelled():
            future.set_exception(SendUnknown(submission.topic, "its producer was closed"))
        elif (error := task.exception()) is not None:
            future.set_exception(error)
        else:
            future.set_result(task.result())

    def _enter(self, topic: str, size: int, timeout_s: float) -> None:
        with self._has_room:
            if not self._has_room.wait_for(lambda: self._fits(size), timeout_s):
                reason = f"no room within {timeout_s:g} s: {self._count} sends are under way"
                raise SendFailed(topic, reason)
            self._count += 1
            self._size += size

    def _fits(self, size: int) -> bool:
        return not self._count or (
            self._count < self._count_max and self._size + size <= self._size_max
        )

    def _leave(self, size: int) -> None:
        with self._has_room:
            self._count -= 1
            self._size -= size
            # Not one of them: it may be too large for the room there is, and another is not.
            self._has_room.notify_all()
