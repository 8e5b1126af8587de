"""A store at work on a faulty disk, one seeded step after the other, in one thread.

Files are a few pages long, so that a workload of some hundred steps rolls all of them. The
flusher's rounds are steps like others, and while it syncs, messages keep coming in: whoever
writes goes on during a sync, and that is when promises are made too early.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Final

from roquet.disk import PAGE_SIZE
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.record_batches import DraftBatch
from roquet.store.config import FlushMode, StoreConfig
from roquet.store.errors import StoreUnavailable
from roquet.store.message_store import MessageStore
from tests.support.drafts import draft
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk
from tests.support.inner_parts import flusher_of, log_of
from tests.support.log_rebuild import QueueName
from tests.support.store_ledger import Ledger
from tests.support.stores import small_config

TOPICS: Final = ("TopicA", "TopicB", "C")
QUEUE_COUNT: Final = 2
TAGS: Final = ("red", "blue")

_ASYNC_ROUND_S: Final = 0.5


def workload_config(root: Path, flush_mode: FlushMode) -> StoreConfig:
    return small_config(
        root,
        commit_log_file_size=4 * 4096,
        queue_file_size=600,
        index_entry_count=150,
        flush_mode=flush_mode,
        queue_flush_interval_ms=3_000,
    )


class Workload:
    """`step` until you have seen enough; `store` is None while it is being opened."""

    def __init__(self, disk: FaultyDisk, flush_mode: FlushMode, chance: Random) -> None:
        self.config = workload_config(disk.root, flush_mode)
        self.disk = disk
        self.clock = FakeClock()
        self.chance = chance
        self.ledger = Ledger()
        self.store: MessageStore | None = None
        # Handed over, but the store has not answered yet: it may be there or not.
        self.in_flight: list[RecordDraft] = []
        # For async flush: when each message came, and how far the log was at the last round.
        self.sent_at_s: list[float] = []
        self.end_at_round = 0
        self._is_interleaving = False
        self.open()

    def step(self) -> None:
        kind = self.chance.random()
        if kind < 0.02:
            self.close()
            self.open()
        elif kind < 0.06:
            self._opened().file_keys()
        else:
            self.write()

    def write(self) -> None:
        kind = self.chance.random()
        if kind < 0.60:
            self.append()
        elif kind < 0.75:
            self.append_batch()
        else:
            self.pass_time(self.chance.choice((0.0, 0.0, 0.1, 0.1, 0.5, 0.5, 2.0, 11.0)))

    def append(self) -> None:
        one = self._draft(*self._queue())
        with self._handing_over([one]):
            self.ledger.took(one, self._opened().append(one))

    def append_batch(self) -> None:
        queue = self._queue()
        drafts = [self._draft(*queue) for _ in range(self.chance.randint(1, 5))]
        with self._handing_over(drafts):
            self.ledger.took_batch(drafts, self._opened().append_batch(DraftBatch(drafts)))

    def pass_time(self, seconds: float) -> None:
        """With rounds of the flusher on the way, as its thread would do them."""
        if self.config.flush_mode is FlushMode.SYNC:
            self.clock.advance(seconds)
            self._round()
            return
        while seconds > 0:
            self.clock.advance(min(seconds, _ASYNC_ROUND_S))
            seconds -= _ASYNC_ROUND_S
            self._round()

    def close(self) -> None:
        store, self.store = self._opened(), None
        store.close()

    def open(self) -> None:
        self.store = MessageStore.open(self.config, self.clock, self.disk, self.ledger)

    def during_sync(self) -> None:
        """To be called by the disk in the middle of a sync."""
        store = self.store
        if store is None or self._is_interleaving or log_of(store)._making.locked():
            return
        self._is_interleaving = True
        with suppress(StoreUnavailable):
            for _ in range(self.chance.choice((0, 0, 1, 3))):
                self.append()
        self._is_interleaving = False

    def visible(self) -> dict[QueueName, int]:
        """How far each queue can be read now."""
        store = self.store
        return (
            {}
            if store is None
            else {
                QueueName(topic, queue_id): store.max_offset(topic, queue_id)
                for topic in TOPICS
                for queue_id in range(QUEUE_COUNT)
            }
        )

    def due_end(self) -> int:
        """With async flush: what was old enough, or followed by enough, to be safe by now."""
        by_size = self.end_at_round - self.config.flush_pages_min * PAGE_SIZE
        window_ms = self.config.flush_all_interval_ms + self.config.flush_interval_ms
        latest_s = self.clock.monotonic_s() - window_ms / 1000
        # A message whose append did not return yet has no time, and is not old.
        by_age = [
            each.physical_end
            for each, at_s in zip(self.ledger.sent, self.sent_at_s, strict=False)
            if at_s < latest_s
        ]
        return max(by_size, *by_age, 0)

    def _opened(self) -> MessageStore:
        assert self.store is not None
        return self.store

    def _round(self) -> None:
        end = self._opened().log_end
        flusher_of(self._opened()).tick()
        self.end_at_round = end

    def _queue(self) -> tuple[str, int]:
        return self.chance.choice(TOPICS), self.chance.randrange(QUEUE_COUNT)

    def _draft(self, topic: str, queue_id: int) -> RecordDraft:
        chance = self.chance
        # Messages of one millisecond are usual, and recovery goes by time.
        self.clock.advance(chance.choice((0, 0, 0.001, 0.002)))
        size = chance.choice((0, 10, 100, 100, 400, 2500))
        properties = {"KEYS": f"key{chance.randrange(10_000)} {chance.randrange(10)}"}
        if chance.random() < 0.5:
            properties["TAGS"] = chance.choice(TAGS)
        return draft(chance.randbytes(size), topic=topic, queue_id=queue_id, properties=properties)

    @contextmanager
    def _handing_over(self, drafts: list[RecordDraft]) -> Iterator[None]:
        self.in_flight = drafts
        try:
            yield
            self.sent_at_s += [self.clock.monotonic_s()] * len(drafts)
        except StoreUnavailable:
            # It was refused, and so it must not be there.
            self.in_flight = []
            raise
        self.in_flight = []
