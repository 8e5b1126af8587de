"""Pops, acks and changes in any order, with saves and kills between them, against a dict.

The world has a real store and the real journal. What it has to agree with is a dict of the messages
that are out, with the time at which each has to come again, and one number: what is popped next.
"""

from pathlib import Path

from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.broker.pop.journal import PopJournal
from roquet.broker.pop.journal_writing import JournalForm
from roquet.broker.tables.offsets import OffsetTable
from tests.support.drafts import STORE_HOST
from tests.support.fake_clock import FakeClock
from tests.support.stores import open_store

QUEUE = QueueOfGroup("workers", "orders", 0)
FORM = JournalForm("DefaultCluster", "broker-a", STORE_HOST, has_checksum=True)


class PopWorld:
    """Every method is one step; `check` compares."""

    def __init__(self, directory: Path) -> None:
        self.clock = FakeClock()
        self.store = open_store(directory, clock=self.clock)
        self.offsets = OffsetTable()
        self._saved = self.offsets.to_bytes()
        self.journal = self._journal()
        # The model: when each message that is out has to come again, by its receipt.
        self.out: dict[tuple[PopKey, int], int] = {}
        self.next_offset = 0
        # All receipts that clients have ever got: old ones must do no harm.
        self.receipts: list[tuple[PopKey, int]] = []
        # What came again, to be compared with what had to.
        self.redelivered: list[int] = []
        self.expected: list[int] = []

    def pop(self, count: int, invisible_ms: int) -> None:
        offsets = range(self.next_offset, self.next_offset + count)
        while self._key(offsets[0]) != self.journal.in_flight.free_key(self._key(offsets[0])):
            self.clock.advance(0.001)
        key = self._key(offsets[0])
        self.next_offset += count
        self.journal.note_pop(key, offsets, invisible_ms, self.next_offset)
        self.offsets.commit(*QUEUE, self.next_offset)
        for offset in offsets:
            self.out[key, offset] = self.clock.now_ms() + invisible_ms
            self.receipts.append((key, offset))

    def ack(self, number: int) -> None:
        if self.receipts:
            key, offset = self.receipts[number % len(self.receipts)]
            self.journal.note_acks(key, (offset,))
            self.out.pop((key, offset), None)

    def change(self, number: int, invisible_ms: int) -> None:
        if not self.receipts:
            return
        old, offset = self.receipts[number % len(self.receipts)]
        key = self.journal.in_flight.free_key(self._key(offset))
        self.journal.note_change(old, key, invisible_ms, is_suspended=False)
        if self.out.pop((old, offset), None) is not None:
            self.out[key, offset] = key.pop_time_ms + invisible_ms
            self.receipts.append((key, offset))

    def move(self, offset: int) -> None:
        """An operator sends the group somewhere, and time passes before it pops there."""
        if self.receipts:
            self.clock.advance(0.001)
            self.journal.note_move(QUEUE, offset)
            self.next_offset = offset
            self.offsets.commit(*QUEUE, offset)
            self._saved = self.offsets.to_bytes()

    def advance(self, seconds: float) -> None:
        """What is due comes again, as in `redelivery`, without the retry topic."""
        self.clock.advance(seconds)
        in_flight = self.journal.in_flight
        while (point := in_flight.first_due(self.journal.steady_ms)) is not None:
            offsets = point.open_offsets
            self.redelivered += offsets
            self.journal.note_acks(point.key, offsets)
        due = [each for each, due_ms in self.out.items() if due_ms <= self.clock.now_ms()]
        for each in due:
            self.expected.append(each[1])
            del self.out[each]

    def rewrite(self) -> None:
        self.journal.rewrite_stragglers()

    def save(self) -> None:
        """The file of offsets, as it is every few seconds."""
        self.journal.commit_progress(self.store.log_end)
        self._saved = self.offsets.to_bytes()

    def kill(self) -> None:
        """All that was in memory is gone; the log stays."""
        self.offsets = OffsetTable()
        self.offsets.load(self._saved)
        self.offsets.pops.truncate(self.store.log_end)
        self.journal = self._journal()

    def close(self) -> None:
        self.store.close()

    def violations(self) -> list[str]:
        in_flight = self.journal.in_flight
        found = {
            (point.key, offset): point.due_ms
            for point in in_flight.points()
            for offset in point.open_offsets
        }
        wrong = []
        if found != self.out:
            wrong.append(f"out: {found}, and not {self.out}")
        if in_flight.count != len(self.out):
            wrong.append(f"{in_flight.count} are counted, and {len(self.out)} are out")
        if self.journal.next_due_ms != min(self.out.values(), default=None):
            wrong.append(f"the next is due at {self.journal.next_due_ms}")
        if (self.offsets.find(*QUEUE) or 0) != self.next_offset:
            wrong.append(f"{self.offsets.find(*QUEUE)} is next, and not {self.next_offset}")
        if sorted(self.redelivered) != sorted(self.expected):
            wrong.append(f"redelivered: {self.redelivered}, and not {self.expected}")
        return wrong

    def _key(self, offset: int) -> PopKey:
        return PopKey(QUEUE, offset, self.clock.now_ms())

    def _journal(self) -> PopJournal:
        journal = PopJournal(self.store, self.offsets, self.clock, FORM)
        journal.load()
        return journal
