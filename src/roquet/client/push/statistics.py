"""Counts and rates of a push consumer: for its program, and for operators."""

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, final

from roquet.client.arguments import moment_before, timestamp_ms
from roquet.client.group.membership import Membership
from roquet.client.push.config import PushConsumerConfig
from roquet.client.push.delivery import Running
from roquet.client.push.queue_locks import QueueLocks
from roquet.client.queue_ref import QueueRef
from roquet.clock import Clock
from roquet.protocol.bodies.clients import ConsumeStatus, HeldMessage, ProcessQueueInfo
from roquet.protocol.messages.message import KEY_SEPARATOR

SAMPLE_PERIOD_S: Final = 10.0
# As in Java, rates are those of the last minute.
_SAMPLE_COUNT: Final = 7

_MEGABYTE: Final = 1024 * 1024
# As many as an operator reads.
_HELD_COUNT_MAX: Final = 32


@dataclass(slots=True)
class TopicCounts:
    """Sums since the consumer was made; counts are of messages, unless named otherwise."""

    pull_count: int = 0  # of pulls that brought messages
    pull_duration_s: float = 0.0
    pulled_count: int = 0
    call_count: int = 0  # of calls of the listener
    call_duration_s: float = 0.0
    done_count: int = 0
    failed_count: int = 0
    stuck_count: int = 0  # of queues that were restarted because a pull got stuck


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
    """`lag` is the count of messages after the offset; None before the first pull has ended."""

    offset: int
    lag: int | None
    unfinished_count: int
    unfinished_size: int
    unfinished_span: int  # from the first of them to the last
    is_locked: bool
    # When the last pull and the last call of the listener ended; None is never.
    last_pull: datetime | None
    last_end: datetime | None


@dataclass(frozen=True, slots=True)
class ConsumerStatistics:
    """Counts and rates of a push consumer, and its progress in each queue."""

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


def own_properties(config: PushConsumerConfig, *, is_paused: bool) -> dict[str, str]:
    return {
        "PROP_CONSUMEORDERLY": str(config.orderly).lower(),
        "PROP_THREADPOOL_CORE_SIZE": str(config.concurrency),
        "pullBatchSize": str(config.pull_count_max),
        "consumeMessageBatchMaxSize": str(config.delivery_count_max),
        "pause": str(is_paused).lower(),
    }


def queue_infos(
    membership: Membership, locks: QueueLocks | None, progress: Mapping[QueueRef, PushProgress]
) -> dict[QueueRef, ProcessQueueInfo]:
    def or_begin(moment: datetime | None) -> int:
        return membership.begin_ms if moment is None else timestamp_ms(moment)

    def locked(queue: QueueRef) -> datetime | None:
        return None if locks is None else moment_before(membership.clock, locks.locked_s(queue))

    def info(queue: QueueRef, progress: PushProgress) -> ProcessQueueInfo:
        first = progress.offset if progress.unfinished_count else 0
        return ProcessQueueInfo(
            cached_msg_count=progress.unfinished_count,
            cached_msg_min_offset=first,
            cached_msg_max_offset=first + progress.unfinished_span,
            cached_msg_size_in_mib=progress.unfinished_size // _MEGABYTE,
            commit_offset=progress.offset,
            locked=progress.is_locked,
            last_lock_timestamp=or_begin(locked(queue)),
            last_pull_timestamp=or_begin(progress.last_pull),
            last_consume_timestamp=or_begin(progress.last_end),
        )

    return {queue: info(queue, each) for queue, each in progress.items()}


def held_messages(running: Iterable[Running], clock: Clock) -> list[HeldMessage]:
    """What listeners work on, those that take longest first."""
    oldest = sorted(running, key=lambda each: each.begin_s)[:_HELD_COUNT_MAX]
    now_s = clock.monotonic_s()

    def held(running: Running) -> HeldMessage:
        message = running.delivery.messages[0]
        queue = message.queue
        return HeldMessage(
            topic=queue.topic,
            broker_name=queue.broker_name,
            queue_id=queue.queue_id,
            queue_offset=message.queue_offset,
            message_id=message.message_id,
            keys=KEY_SEPARATOR.join(message.keys) or None,
            held_ms=round((now_s - running.begin_s) * 1000),
        )

    return [held(each) for each in oldest]


def topic_statuses(counters: ConsumerCounters, now_s: float) -> dict[str, ConsumeStatus]:
    return {
        topic: ConsumeStatus(
            pull_rt=each.pull_duration_s * 1000,
            pull_tps=each.pulled,
            consume_rt=each.call_duration_s * 1000,
            consume_ok_tps=each.done,
            consume_failed_tps=each.failed,
            consume_failed_msgs=counters.topics[topic].failed_count,
        )
        for topic, each in counters.rates(now_s).items()
    }
