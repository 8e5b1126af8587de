"""Acks that come in one turn of the event loop, written together.

A client acknowledges each message of a pop by itself, and mostly all of them at once. What is for
one check point becomes one record of the journal, and the replies to one connection one write. No
ack is answered before its record is written. The fast path has runs of acks ready.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, final

from roquet.broker.messages.acks import AckQueue, OnTimeout
from roquet.broker.pop.in_flight import PopKey
from roquet.broker.pop.journal import PopJournal
from roquet.net.connection import Connection
from roquet.net.errors import Refused
from roquet.net.router import DEFERRED, Reply, ReplyDeferred, Request, encode_answer
from roquet.protocol.command import Command


class _Acks(NamedTuple):
    """Of one check point, from one connection."""

    key: PopKey
    connection: Connection
    ack_count: int
    # The frames that answer all of them alike.
    encoded: Callable[[Reply], bytes]


@final
class AckTurn:
    """Belongs to the event loop."""

    def __init__(self, journal: PopJournal, acks: AckQueue) -> None:
        self._journal = journal
        self._acks = acks
        self._waiting: list[_Acks] = []
        self._offsets: dict[PopKey, list[int]] = {}

    def add(self, request: Request[Any], key: PopKey, offset: int) -> ReplyDeferred:
        """For a handler to return; there is room to defer the request."""
        self.add_run(request.connection, key, (offset,), partial(_encoded, request.command))
        return DEFERRED

    def add_run(
        self,
        connection: Connection,
        key: PopKey,
        offsets: Sequence[int],
        encoded: Callable[[Reply], bytes],
    ) -> None:
        """As many acks, which there is room to defer."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.flush)
        self._waiting.append(_Acks(key, connection, len(offsets), encoded))
        self._offsets.setdefault(key, []).extend(offsets)
        connection.defer(len(offsets))

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
        counts: dict[Connection, int] = {}
        for acks in waiting:
            frames.setdefault(acks.connection, []).append(acks.encoded(replies[acks.key]))
            counts[acks.connection] = counts.get(acks.connection, 0) + acks.ack_count
        for connection, each in frames.items():
            self._acks.answer_when_safe(
                connection, end, b"".join(each), counts[connection], OnTimeout.REFUSE
            )


def _encoded(command: Command, reply: Reply) -> bytes:
    """Nothing, if it is one-way: then the peer waits for no reply."""
    return encode_answer(command, reply) or b""
