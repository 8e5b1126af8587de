"""Pops in order, with saves and kills between them, against a few lists.

The world has a real broker with one queue. A pop may bring a message only if it is not
acknowledged, its time is over, and all earlier ones of its message group are acknowledged or come
with it. What it does not bring has to be blocked.
"""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from roquet.protocol.messages.pop_receipt import Receipt
from roquet.protocol.names import REVIVE_GROUP
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.popped import GROUP, TOPIC, Popped, ack, change, pop

MESSAGE_GROUPS = ("a", "b", "c")
INVISIBLE_MS = (1_000, 60_000)


class Sent:
    def __init__(self, offset: int, group: str) -> None:
        self.offset = offset
        self.group = group
        self.is_acked = False
        # When it may come again; what a receipt has to have to be that of the last pop.
        self.due_ms = 0
        self.pop_time_ms = -1
        self.times = -1


class OrderedPopWorld:
    """Every method is one step."""

    def __init__(self, bed: BrokerBed, choose: random.Random) -> None:
        self._bed = bed
        self._client = bed.connect()
        self._choose = choose
        self._sent: list[Sent] = []
        # All that clients have ever got: old ones must do no harm.
        self._receipts: list[Receipt] = []
        self._attempt_number = 0
        self._last: list[int] = []
        self._saved = bed.broker.tables.offsets.to_bytes()
        self.violations: list[str] = []

    async def send(self) -> None:
        group = self._choose.choice(MESSAGE_GROUPS)
        offset = len(self._sent)
        self._bed.put(b"%d" % offset, properties={"__SHARDINGKEY": group})
        self._sent.append(Sent(offset, group))

    async def pop(self) -> None:
        self._attempt_number += 1
        count = self._choose.choice((1, 2, 5, 32))
        came = await self._pop(count)
        now_ms = self._bed.clock.now_ms()
        for index, message in enumerate(came):
            if message.is_acked or message.due_ms > now_ms:
                self.violations.append(f"{message.offset} came, and must not")
            before = [each for each in self._unacked(message.group) if each.offset < message.offset]
            if any(each not in came[:index] for each in before):
                self.violations.append(f"{message.offset} came before others of its group")
            if any(each.due_ms > now_ms for each in self._unacked(message.group)):
                self.violations.append(f"{message.offset} came, and its group is blocked")
        self._note(came, is_counted=True)
        if len(came) < count:
            free = [
                group
                for group in MESSAGE_GROUPS
                if self._unacked(group) and all(m.due_ms <= now_ms for m in self._unacked(group))
            ]
            if free:
                self.violations.append(f"nothing came of {free}, which are not blocked")

    async def repeat(self) -> None:
        """The client has lost the last reply."""
        expected = [offset for offset in self._last if not self._sent[offset].is_acked]
        if not expected or not self._attempt_number:
            return
        came = await self._pop(32)
        if [message.offset for message in came] != expected:
            self.violations.append(f"a repeated attempt got {came} and not {expected}")
        self._note(came, is_counted=False)

    async def ack(self) -> None:
        if self._receipts:
            receipt = self._choose.choice(self._receipts)
            message = self._sent[receipt.offset]
            await ack(self._client, receipt)
            if receipt.pop_time_ms == message.pop_time_ms:
                message.is_acked = True

    async def change(self) -> None:
        if self._receipts:
            receipt = self._choose.choice(self._receipts)
            message = self._sent[receipt.offset]
            invisible_ms = self._choose.choice(INVISIBLE_MS)
            await change(self._client, receipt, invisible_ms)
            if receipt.pop_time_ms == message.pop_time_ms and not message.is_acked:
                message.due_ms = self._bed.clock.now_ms() + invisible_ms

    async def advance(self) -> None:
        self._bed.clock.advance(self._choose.choice((0.001, 1.0, 61.0)))

    async def rewrite(self) -> None:
        self._bed.broker.waiting.pops.rewrite_stragglers()

    async def save(self) -> None:
        """The file of offsets, as it is every few seconds."""
        broker = self._bed.broker
        broker.waiting.pops.commit_progress(broker.store.log_end)
        self._saved = broker.tables.offsets.to_bytes()

    async def kill(self) -> None:
        """All that was in memory is gone; the log stays."""
        offsets = self._bed.broker.tables.offsets
        offsets.forget_group(GROUP)
        offsets.forget_group(REVIVE_GROUP)
        offsets.load(self._saved)
        self._bed.broker.waiting.pops.load()

    async def drain(self) -> None:
        """Everything is popped and acknowledged at last."""
        for _ in range(len(self._sent) + 1):
            self._bed.clock.advance(61)
            self._receipts.clear()
            await self.pop()
            for receipt in list(self._receipts):
                await ack(self._client, receipt)
                self._sent[receipt.offset].is_acked = True
        if not all(message.is_acked for message in self._sent):
            self.violations.append("some never came")
        position = self._bed.broker.tables.offsets.find(GROUP, TOPIC, 0) or 0
        if position != len(self._sent) or self._bed.broker.waiting.pops.lag:
            self.violations.append(f"the group is at {position} of {len(self._sent)}")

    def _unacked(self, group: str) -> list[Sent]:
        return [each for each in self._sent if each.group == group and not each.is_acked]

    async def _pop(self, count: int) -> list[Sent]:
        self._bed.clock.advance(0.001)  # No two pops have the same time.
        self._invisible_ms = self._choose.choice(INVISIBLE_MS)
        popped = await pop(
            self._client,
            order=True,
            max_msg_nums=count,
            invisible_time=self._invisible_ms,
            attempt_id=str(self._attempt_number),
        )
        self._popped = popped
        return [self._sent[int(body)] for body in popped.bodies]

    def _note(self, came: list[Sent], *, is_counted: bool) -> None:
        popped: Popped = self._popped
        self._receipts += popped.receipts
        self._last = [message.offset for message in came]
        counts = _counts(popped.header.order_count_info or "")
        for message in came:
            message.times += is_counted
            message.pop_time_ms = popped.header.pop_time
            message.due_ms = message.pop_time_ms + self._invisible_ms
            if counts.get(message.offset, 0) != message.times:
                self.violations.append(f"{message.offset} was counted wrongly")


def _counts(text: str) -> dict[int, int]:
    entries = [entry.split(" ") for entry in text.split(";") if "%" in entry]
    return {int(place.split("%")[1]): int(times) for _, place, times in entries}


@asynccontextmanager
async def opened_world(directory: Path, choose: random.Random) -> AsyncIterator[OrderedPopWorld]:
    async with broker_bed(directory) as bed:
        bed.broker.tables.topics.find_or_create(TOPIC, 1)
        yield OrderedPopWorld(bed, choose)
