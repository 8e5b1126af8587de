"""Acks that come in one turn of the event loop, written together.

A client acknowledges each message of a pop by itself, and mostly all of them at once. What is for
one check point becomes one record of the journal, and the replies to one connection one write. No
ack is answered before its record is written.
"""

import asyncio
from typing import Any, NamedTuple, final

from roquet.broker.messages.acks import AckQueue, OnTimeout
from roquet.broker.pop.in_flight import PopKey
from roquet.broker.pop.journal import PopJournal
from roquet.net.connection import Connection
from roquet.net.errors import Refused
from roquet.net.router import DEFERRED, Reply, ReplyDeferred, Request, encode_answer


class _Ack(NamedTuple):
    key: PopKey
    request: Request[Any]


@final
class AckTurn:
    """Belongs to the event loop."""

    def __init__(self, journal: PopJournal, acks: AckQueue) -> None:
        self._journal = journal
        self._acks = acks
        self._waiting: list[_Ack] = []
        self._offsets: dict[PopKey, list[int]] = {}

    def add(self, request: Request[Any], key: PopKey, offset: int) -> ReplyDeferred:
        """For a handler to return; there is room to defer the request."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(_Ack(key, request))
        self._offsets.setdefault(key, []).append(offset)
        request.connection.defer()
        return DEFERRED

    def flush(self) -> None:
        """Whatever changes what is out must come after the acks that came before it."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        offsets, self._offsets = self._offsets, {}
        replies: dict[PopKey, Reply] = {}
        end = 0
        for key, acked in offsets.items():
            try:
                end = max(end, self._journal.note_acks(key, acked))
                replies[key] = Reply()
            except Refused as refused:
                replies[key] = Reply(refused.code, remark=refused.remark)
        frames: dict[Connection, list[bytes]] = {}
        for key, request in waiting:
            # Nothing, if it is one-way: then the peer waits for no reply.
            frame = encode_answer(request.command, replies[key]) or b""
            frames.setdefault(request.connection, []).append(frame)
        for connection, each in frames.items():
            self._acks.answer_when_safe(
                connection, end, b"".join(each), len(each), OnTimeout.REFUSE
            )
