"""What a push consumer did so far, and how fast, for whoever asks."""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, final

from roquet.client.queue_ref import QueueRef

SAMPLE_PERIOD_S: Final = 10.0
# As in Java, rates are those of the last minute.
_SAMPLE_COUNT: Final = 7


@dataclass(slots=True)
class TopicCounts:
    """Sums since the consumer was made; counts are of messages, unless the name says of what."""

    pull_count: int = 0  # of pulls that brought messages
    pull_duration_s: float = 0.0
    pulled_count: int = 0
    call_count: int = 0  # of calls of the listener
    call_duration_s: float = 0.0
    done_count: int = 0
    failed_count: int = 0
    stuck_count: int = 0  # of queues that were begun anew because a pull got stuck


@dataclass(frozen=True, slots=True)
class TopicRates:
    """Of the last minute: messages each second, and seconds of an average pull or call."""

    pulled: float = 0.0
    done: float = 0.0
    failed: float = 0.0
    pull_duration_s: float = 0.0
    call_duration_s: float = 0.0


@dataclass(frozen=True, slots=True)
class PushProgress:
    """`lag` is what the queue has beyond the offset; None before the first answer of its broker."""

    offset: int
    lag: int | None
    unfinished_count: int
    unfinished_size: int
    unfinished_span: int  # from the first of them to the last
    is_locked: bool
    # When it was last heard, and when a listener last ended; None is never.
    last_pull: datetime | None
    last_end: datetime | None


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """What a push consumer has done, how fast, and how far it is in each queue."""

    topics: Mapping[str, TopicCounts] = field(default_factory=dict)
    rates: Mapping[str, TopicRates] = field(default_factory=dict)
    queues: Mapping[QueueRef, PushProgress] = field(default_factory=dict)
    # Calls of the listener that run now.
    running_count: int = 0
    last_error: str | None = None


@final
class ConsumerCounters:
    """The counts of one consumer, by topic."""

    def __init__(self) -> None:
        self.topics: defaultdict[str, TopicCounts] = defaultdict(TopicCounts)
        self._samples: deque[tuple[float, dict[str, TopicCounts]]] = deque(maxlen=_SAMPLE_COUNT)

    def sample(self, now_s: float) -> None:
        """Called after each period."""
        self._samples.append((now_s, self._copy()))

    def counts(self) -> dict[str, TopicCounts]:
        return self._copy()

    def rates(self, now_s: float) -> dict[str, TopicRates]:
        if not self._samples:
            return {}
        then_s, before = self._samples[0]
        none = TopicCounts()
        return {
            topic: rates_of(before.get(topic, none), counts, now_s - then_s)
            for topic, counts in self.topics.items()
        }

    def _copy(self) -> dict[str, TopicCounts]:
        return {topic: replace(counts) for topic, counts in self.topics.items()}


def rates_of(before: TopicCounts, after: TopicCounts, duration_s: float) -> TopicRates:
    def per_second(count: int) -> float:
        return count / duration_s if duration_s > 0 else 0.0

    def average(total: float, count: int) -> float:
        return total / count if count else 0.0

    return TopicRates(
        per_second(after.pulled_count - before.pulled_count),
        per_second(after.done_count - before.done_count),
        per_second(after.failed_count - before.failed_count),
        average(
            after.pull_duration_s - before.pull_duration_s, after.pull_count - before.pull_count
        ),
        average(
            after.call_duration_s - before.call_duration_s, after.call_count - before.call_count
        ),
    )
