"""A small file that follows what operators change, and answers that wait for it.

A change counts at once and is acknowledged when it is on disk.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, NamedTuple, final

from roquet.net.router import Deferred, Reply, Request
from roquet.protocol.codes import ResponseCode
from roquet.state_file import StateFile, StateNotSaved

log = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    deferred: Deferred
    reply: Reply


@final
class Saving:
    """`content` gives what the file has to hold at the time of the call."""

    def __init__(self, file: StateFile, content: Callable[[], bytes]) -> None:
        self._file = file
        self._content = content
        self._unsaved: list[_Waiting] = []
        self._has_unsaved = asyncio.Event()

    def answer_when_saved(self, request: Request[Any], reply: Reply | None = None) -> Deferred:
        deferred = Deferred(request)
        self._unsaved.append(_Waiting(deferred, reply or Reply()))
        self._has_unsaved.set()
        return deferred

    async def save_changes(self) -> None:
        """Saves whenever something has changed, forever; changes made meanwhile share a save."""
        while True:
            await self._has_unsaved.wait()
            self._has_unsaved.clear()
            waiting, self._unsaved = self._unsaved, []
            failure = await self.save_now()
            for deferred, reply in waiting:
                deferred.answer(failure or reply)

    async def save_now(self) -> Reply | None:
        """What to answer if it failed, which is logged."""
        try:
            await asyncio.to_thread(self._file.save, self._content())
        except StateNotSaved as error:
            log.error("settings are not saved: %s", error)  # noqa: TRY400  One line an event.
            return Reply(ResponseCode.SYSTEM_ERROR, remark=f"changed, but not saved: {error}")
        return None
