"""What groups have committed, asked of brokers again and again; it must not go back.

A killed master forgets what it had not saved yet (docs/replication.md), so each life of a broker is
a series of its own. A slave takes over its master's offsets, so it is watched while
there is no master.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from roquet.access.accounts import request_of
from roquet.net.errors import NetError
from roquet.net.peers import Peers
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.offsets import ConsumerOffsetTable
from roquet.protocol.codes import RequestCode
from roquet.protocol.fields import NoFields
from tests.faults.history import History

_PAUSE_S: Final = 0.2
_TIMEOUT_S: Final = 1.0

# By queue.
Offsets = dict[int, int]


class CommitWatch:
    """`life` names the life that a broker leads now, None while it is not watched."""

    def __init__(self, peers: Peers, topic: str, history: History) -> None:
        self._peers = peers
        self._topic = topic
        self._history = history

    async def committed(self, address: str) -> dict[str, Offsets]:
        """By group. Raises NetError."""
        request = request_of(None, RequestCode.GET_ALL_CONSUMER_OFFSET, NoFields())
        reply = await self._peers.call(address, request, _TIMEOUT_S)
        table = read_body(ConsumerOffsetTable, reply.body).offset_table if reply.body else {}
        by_group = {}
        for key, offsets in table.items():
            topic, _, group = key.partition("@")
            if topic == self._topic:
                by_group[group] = dict(offsets)
        return by_group

    async def watch(self, address: str, life: Callable[[], str | None]) -> None:
        """Never returns."""
        while True:
            before = life()
            if before is not None:
                with suppress(NetError):
                    found = await self.committed(address)
                    # An answer that came during a restart may be of either process.
                    if life() == before:
                        self._note(before, found)
            await asyncio.sleep(_PAUSE_S)

    def _note(self, life: str, found: dict[str, Offsets]) -> None:
        for group, offsets in found.items():
            for queue_id, offset in offsets.items():
                self._history.committed[f"{group} at {life}", queue_id].append(offset)
