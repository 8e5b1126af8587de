"""Clients that pop while faults are done to their broker, in order and not, by remoting and gRPC.

Messages have message groups, and are sent by both. Of what a member receives it acknowledges most;
some it gives another time, some it forgets. `finish` acknowledges everything, then waits for what
should not come any more, and reads the queues: I1 to I6 (`history`) and I11 (`invisibility`).
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final, NamedTuple, Self

from roquet import AsyncProducer, Message, QueueRef, SendError, SendUnknown
from roquet.protocol.messages.message import Property
from tests.faults.history import Acknowledged, Delivery, History, Queue
from tests.faults.invisibility import Invisibility, Line, Outing
from tests.faults.pop_members import (
    INVISIBLE_S,
    GrpcMember,
    GrpcSender,
    Member,
    NoAnswer,
    Received,
    RemotingMember,
    seconds_until,
)
from tests.faults.traffic import everything

TOPIC: Final = "popped"
SHELVED_S: Final = 3_600.0
_MESSAGE_GROUPS: Final = ("amber", "green", "red")
_SEND_TIMEOUT_S: Final = 3.0
_PAUSE_S: Final = 0.05
_LOOK_AGAIN_S: Final = 0.02
# Whoever waits for what must not come does not wait for receipts of gRPC that last longer.
_LINGER_S_MAX: Final = 2 * INVISIBLE_S
_WAITED_LONGER_S: Final = 0.5
_CHANGED_TO_S: Final = (0.0, 0.2, 1.0, 2.5)


class PopGroup(NamedTuple):
    name: str
    is_ordered: bool
    by_grpc: bool


GROUPS: Final = (
    PopGroup("popping", is_ordered=False, by_grpc=False),
    PopGroup("popping-in-order", is_ordered=True, by_grpc=False),
    PopGroup("receiving", is_ordered=False, by_grpc=True),
    PopGroup("receiving-in-order", is_ordered=True, by_grpc=True),
)


@dataclass(frozen=True)
class PopMix:
    groups: Sequence[PopGroup] = GROUPS
    members: int = 2
    pause_s: float = 0.03
    # Of what is received: how much is acknowledged at once, and how much put off for an hour; not
    # in order, where others would wait for it.
    acked_share: float = 0.7
    shelved_share: float = 0.0


class PopTraffic:
    """While the block runs, everything goes on."""

    def __init__(
        self,
        name_server: str,
        queues: Sequence[QueueRef],
        chance: Random,
        *,
        grpc_port: int | None = None,
        mix: PopMix | None = None,
    ) -> None:
        self.history = History()
        self._name_server = name_server
        self._queues = queues
        self._chance = chance
        self._grpc_port = grpc_port
        self.mix = mix or PopMix()
        self.promises = {group: Invisibility(group.name) for group in self.mix.groups}
        self.shelved: Counter[PopGroup] = Counter()
        # When the broker answered that it has it.
        self.sent_s: dict[bytes, float] = {}
        self._received: dict[PopGroup, list[bytes]] = {group: [] for group in self.mix.groups}
        self._numbers = count()
        self._stop_sending = asyncio.Event()
        self._stop_popping = asyncio.Event()
        self._is_draining = False
        self._senders: list[asyncio.Task[None]] = []
        self._poppers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._now_s = asyncio.get_running_loop().time
        self._producer = AsyncProducer(self._name_server, "senders", route_interval_s=1.0)
        await self._producer.open()
        works: list[Awaitable[None]] = [self._keep_sending(queue) for queue in self._queues]
        if self._grpc_port is not None:
            works.append(self._keep_calling(self._grpc_port))
        self._senders = [asyncio.ensure_future(work) for work in works]
        self._poppers = [
            asyncio.ensure_future(self._keep_popping(group))
            for group in self.mix.groups
            for _ in range(self.mix.members)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        tasks = self._senders + self._poppers
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._producer.close()

    @property
    def acked_count(self) -> int:
        return sum(len(each.acked_s) for each in self.promises.values())

    async def until_more(self, number: int = 200, patience_s: float = 60.0) -> None:
        """Returns when so many more acks were answered, or raises TimeoutError."""
        enough = self.acked_count + number
        async with asyncio.timeout(patience_s):
            while self.acked_count < enough:
                self._check_tasks()
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def finish(self, patience_s: float = 60.0) -> list[str]:
        """Everything is acknowledged; what must not come is waited for, then all is read."""
        self._stop_sending.set()
        await asyncio.gather(*self._senders)
        self._is_draining = True
        with suppress(TimeoutError):  # The violations say what did not come.
            async with asyncio.timeout(patience_s):
                while any(self._undone()):
                    self._check_tasks()
                    await asyncio.sleep(_LOOK_AGAIN_S)
        await self._linger()
        self._stop_popping.set()
        await asyncio.gather(*self._poppers)
        self.history.found = await everything(self._name_server, self._queues, patience_s)
        self._note_order()
        return self.violations()

    def violations(self) -> list[str]:
        due = list(self.history.due)
        kept = [each for promise in self.promises.values() for each in promise.violations(due)]
        return [*self.history.violations(), *kept]

    def _undone(self) -> Iterator[bytes]:
        due = list(self.history.due)
        for promise in self.promises.values():
            yield from promise.undone(due)

    async def _linger(self) -> None:
        now_s = self._now_s()
        quiet_s = max((each.quiet_at_s() for each in self.promises.values()), default=now_s)
        await asyncio.sleep(min(max(0.0, quiet_s - now_s), _LINGER_S_MAX) + _WAITED_LONGER_S)

    def _check_tasks(self) -> None:
        """One that fell over would leave everybody waiting."""
        for task in self._senders + self._poppers:
            if task.done():
                task.result()

    # Those who send.

    async def _keep_sending(self, queue: QueueRef) -> None:
        async for key, body in self._bodies():
            begun_s = self._now_s()
            message = Message(TOPIC, body, properties={Property.SHARDING_KEY: key})
            try:
                receipt = await self._producer.send(message, queue=queue, timeout_s=_SEND_TIMEOUT_S)
            except SendUnknown:
                self.history.unknown_count += 1
                continue
            except SendError:
                self.history.failed_count += 1
                await asyncio.sleep(_PAUSE_S)
                continue
            self.sent_s[body] = self._now_s()
            place: Queue = (receipt.queue.broker_name, receipt.queue.queue_id)
            self.history.acknowledged.append(
                Acknowledged(place, receipt.queue_offset, body, begun_s, self.sent_s[body])
            )

    async def _keep_calling(self, port: int) -> None:
        """Where a message lies is not answered here; that it is stored, is."""
        sender = GrpcSender(port, TOPIC)
        try:
            async for key, body in self._bodies():
                try:
                    is_stored = await sender.send(key, body)
                except NoAnswer:
                    self.history.unknown_count += 1
                    await asyncio.sleep(_PAUSE_S)
                    continue
                if is_stored:
                    self.history.promised[body] = 0.0
                    self.sent_s[body] = self._now_s()
                else:
                    self.history.failed_count += 1
        finally:
            await sender.close()

    async def _bodies(self) -> AsyncIterator[tuple[str, bytes]]:
        """With its message group."""
        while not self._stop_sending.is_set():
            key = self._chance.choice(_MESSAGE_GROUPS)
            body = f"{key}-{next(self._numbers)}".encode()
            self.history.attempted.add(body)
            yield key, body
            await asyncio.sleep(self.mix.pause_s)

    # Those who pop.

    async def _keep_popping(self, group: PopGroup) -> None:
        member = self._member(group)
        try:
            while not self._stop_popping.is_set():
                try:
                    received = await member.receive()
                    outings = self._note(group, received)
                    await self._decide(member, group, list(zip(received, outings, strict=True)))
                except NoAnswer:
                    await asyncio.sleep(_PAUSE_S)
        finally:
            await member.close()

    def _member(self, group: PopGroup) -> Member:
        name, is_ordered, by_grpc = group
        if by_grpc:
            assert self._grpc_port is not None
            return GrpcMember(self._grpc_port, TOPIC, name, is_ordered=is_ordered)
        return RemotingMember(self._name_server, TOPIC, name, is_ordered=is_ordered)

    def _note(self, group: PopGroup, received: Sequence[Received]) -> list[Outing]:
        now_s = self._now_s()
        outings = []
        for each in received:
            place = (group.name, each.queue_id)
            self.history.deliver(group.name, Delivery(each.body, place, each.offset), now_s)
            self._received[group].append(each.body)
            line = Line(each.queue_id, _key_of(each.body)) if group.is_ordered else None
            until_s = now_s + seconds_until(each.due_ms)
            outings.append(Outing(each.body, now_s, [(now_s, until_s)], each.offset, line))
        self.promises[group].receive(outings)
        return outings

    async def _decide(
        self, member: Member, group: PopGroup, received: list[tuple[Received, Outing]]
    ) -> None:
        acked = []
        for each, outing in received:
            chance = 0.0 if self._is_draining else self._chance.random()
            now: Received | None = each
            if group.by_grpc and chance > self.mix.acked_share / 2:
                # Its receipts last long: with a shorter one it can be seen whether an ack counts.
                now = await self._change(member, group, each, outing, INVISIBLE_S)
            if now is None:
                continue
            if chance < self.mix.acked_share:
                acked.append((now, outing))
            elif chance > 1 - self.mix.shelved_share and not group.is_ordered:
                if await self._change(member, group, now, outing, SHELVED_S) is not None:
                    self.shelved[group] += 1
            elif self._chance.random() < 0.5:
                invisible_s = self._chance.choice(_CHANGED_TO_S)
                await self._change(member, group, now, outing, invisible_s)
        if acked:
            await self._ack(member, self.promises[group], acked)

    async def _ack(
        self, member: Member, promise: Invisibility, acked: list[tuple[Received, Outing]]
    ) -> None:
        for _, outing in acked:
            promise.begin_ack(outing, self._now_s())
        answered = await member.ack([received for received, _ in acked])
        now_s = self._now_s()
        for (_, outing), is_acked in zip(acked, answered, strict=True):
            if is_acked:
                promise.end_ack(outing, now_s)
            elif is_acked is not None:
                promise.refuse_ack(outing)

    async def _change(
        self, member: Member, group: PopGroup, received: Received, outing: Outing, seconds: float
    ) -> Received | None:
        promise = self.promises[group]
        now_s = self._now_s()
        promise.begin_change(outing, now_s + seconds, now_s)
        changed = await member.change(received, seconds)
        if changed is not None:
            now_s = self._now_s()
            promise.end_change(outing, now_s + seconds_until(changed.due_ms), now_s)
        return changed

    def _note_order(self) -> None:
        """Among those of one message group in a queue, a message is known by its rank."""
        ranks: dict[bytes, tuple[str, int]] = {}
        for (_, queue_id), bodies in self.history.found.items():
            counted: Counter[str] = Counter()
            for offset in sorted(bodies):
                body = bodies[offset]
                line = f"{_key_of(body)} in {queue_id}"
                ranks[body] = line, counted[line]
                counted[line] += 1
        for group in self.mix.groups:
            for body in self._received[group] if group.is_ordered else ():
                if body in ranks:
                    line, rank = ranks[body]
                    self.history.deliver_in_order(Delivery(body, (f"{group.name} {line}", 0), rank))


def _key_of(body: bytes) -> str:
    return body.partition(b"-")[0].decode()
