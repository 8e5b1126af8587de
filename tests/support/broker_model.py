"""What a broker owes to everybody, in a few tables: where each message must end, and when.

Every request is entered before it is sent to the broker, and its success afterwards. What
lies between the two may have happened or not.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support.transactional import COMMIT


class Queue(NamedTuple):
    topic: str
    queue_id: int


class What(NamedTuple):
    """A message where a consumer finds it; every body is sent once."""

    queue: Queue
    body: bytes
    try_count: int


class Arrival(NamedTuple):
    what: What
    time_ms: int


@dataclass
class Promise:
    """Something that was asked of the broker; `log_end` is the end of the log when it agreed."""

    log_end: int | None = None

    @property
    def is_sure(self) -> bool:
        return self.log_end is not None

    def survives(self, synced_end: int) -> None:
        """The power failed when the log was safe up to there."""
        if self.log_end is not None and self.log_end > synced_end:
            self.log_end = None


@dataclass(kw_only=True)
class Awaited(Promise):
    """Comes not before `due_ms`, and is there at `late_ms`."""

    due_ms: int
    late_ms: int
    # A broker that crashes forgets what it delivered last, and delivers it again.
    may_repeat: bool
    count_max: int = 1


@dataclass
class Transaction:
    half: Promise = field(default_factory=Promise)
    word: Promise = field(default_factory=Promise)
    # The ends that it may have had by now; None if it may be open.
    ends: set[int | None] = field(default_factory=lambda: {None})

    def hear(self, outcome: int) -> None:
        """Only the first word counts."""
        if None in self.ends:
            self.ends.add(outcome)

    def survives(self, synced_end: int) -> None:
        self.half.survives(synced_end)
        was_sure = self.word.is_sure
        self.word.survives(synced_end)
        if was_sure and not self.word.is_sure:
            self.ends.add(None)

    def end(self, log_end: int) -> None:
        """The broker has taken a word."""
        if None in self.ends:
            self.ends.discard(None)
            self.word.log_end = log_end


@dataclass
class Progress:
    """How far a group has come in one queue."""

    committed: int = 0
    saved: int = 0


@dataclass
class BrokerModel:
    awaited: dict[What, list[Awaited]] = field(default_factory=lambda: defaultdict(list))
    # By body; all belong to one queue.
    transactions: dict[bytes, Transaction] = field(default_factory=dict)
    progress: dict[Queue, Progress] = field(default_factory=lambda: defaultdict(Progress))
    consumed: set[What] = field(default_factory=set)

    def crash(self) -> None:
        for awaited in self._all_awaited():
            awaited.count_max += awaited.may_repeat
        for progress in self.progress.values():
            progress.committed = progress.saved

    def lose_power(self, synced_end: int, max_offsets: Mapping[Queue, int]) -> None:
        """`max_offsets` is what is left of the queues."""
        self.crash()
        for awaited in self._all_awaited():
            awaited.survives(synced_end)
        for transaction in self.transactions.values():
            transaction.survives(synced_end)
        for queue, progress in self.progress.items():
            progress.committed = min(progress.committed, max_offsets[queue])

    def next_due(self, now_ms: int) -> Awaited | None:
        """What comes next; None if nothing has to wait."""
        waiting = [awaited for awaited in self._all_awaited() if awaited.due_ms > now_ms]
        return min(waiting, key=lambda awaited: awaited.due_ms, default=None)

    def save_progress(self) -> None:
        for progress in self.progress.values():
            progress.saved = progress.committed

    def check_arrivals(
        self, arrivals: Iterable[Arrival], now_ms: int, transactions_queue: Queue
    ) -> None:
        times: dict[What, list[int]] = defaultdict(list)
        for arrival in arrivals:
            times[arrival.what].append(arrival.time_ms)
        for body, transaction in self.transactions.items():
            _check_end(body, transaction, times.pop(What(transactions_queue, body, 0), []))
        for what in times.keys() | self.awaited.keys():
            _check_arrival(what, self.awaited.get(what, []), times.get(what, []), now_ms)

    def check_given_up(self, bodies: Iterable[bytes]) -> None:
        """To be called when no check runs any more."""
        counts = Counter(bodies)
        assert set(counts.values()) <= {1}, f"given up twice: {counts}"
        for body, transaction in self.transactions.items():
            if transaction.ends == {None} and transaction.half.is_sure:
                assert body in counts, f"the transaction of {body!r} is not given up"

    def check_consumed(self, queues: Iterable[Queue]) -> None:
        """To be called when the consumer finds nothing more in these queues."""
        wanted = {
            what
            for what, all_awaited in self.awaited.items()
            if what.queue in queues and any(awaited.is_sure for awaited in all_awaited)
        }
        assert wanted <= self.consumed, f"never consumed: {wanted - self.consumed}"

    def _all_awaited(self) -> list[Awaited]:
        return [awaited for several in self.awaited.values() for awaited in several]


def _check_end(body: bytes, transaction: Transaction, times: list[int]) -> None:
    ends = transaction.ends
    allowed = {int(end == COMMIT) for end in ends}
    assert len(times) in allowed, f"{body!r} came {len(times)} times, with ends {ends}"


def _check_arrival(what: What, all_awaited: list[Awaited], times: list[int], now_ms: int) -> None:
    for count, time_ms in enumerate(sorted(times), 1):
        count_max = sum(each.count_max for each in all_awaited if each.due_ms <= time_ms)
        assert count <= count_max, f"{what} came early or too often: {times} for {all_awaited}"
    count_min = sum(each.is_sure and each.late_ms <= now_ms for each in all_awaited)
    assert len(times) >= count_min, f"{what} is missing: {times} for {all_awaited}"
