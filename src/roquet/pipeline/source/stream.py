"""A stream: the source as Spark calls it in the driver, from the first batch to the last.

Spark calls these methods one after the other, in a process that runs as long as the query. An
error ends the query, so temporary ones are retried; the queues of a broker that stays unreachable
are skipped, and the others are read.

A queue can lose its oldest messages (they expired), its newest ones (a broker without its disk),
or all of them (its topic was deleted and created again).
"""

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from roquet.client.blocking.reader import TopicReader
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.connections import (
    MISSING_GRACE,
    UNANSWERED,
    is_missing_topic,
    may_pass,
    retried,
    stays_missing,
    topic_reader,
)
from roquet.pipeline.errors import DataLoss, without_frames
from roquet.pipeline.options.reading import Position, ReadOptions
from roquet.pipeline.planning import admitted, is_held_back
from roquet.pipeline.queue_offsets import StreamOffset, flat_table, ranges_between
from roquet.pipeline.source.batch import planned, read_rows
from roquet.pipeline.source.positions import (
    FoundQueues,
    existing_queues,
    named_queues,
    queues_of,
    starting_offsets,
)
from roquet.pipeline.source.rows import average_size, pull_group


class QueueState(NamedTuple):
    """A queue as its broker reports it. `born_ms` is the store time of its first message."""

    min_offset: int
    max_offset: int
    born_ms: int | None


class Loss(NamedTuple):
    """`resume` is the offset at which reading can continue."""

    reason: str
    resume: int


def states_of(reader: TopicReader, queues: Collection[QueueRef]) -> dict[QueueRef, QueueState]:
    """The states of all these queues. Raises what the client raises."""
    bounds = reader.bounds(queues)
    born = reader.earliest_store_times(queues)
    return {
        queue: QueueState(min_offset, max_offset, _milliseconds(born[queue]))
        for queue, (min_offset, max_offset) in bounds.items()
    }


def states_of_some(reader: TopicReader, queues: Iterable[QueueRef]) -> dict[QueueRef, QueueState]:
    """Without the queues of unreachable brokers and deleted topics.

    Raises RequestRefused if a broker refuses.
    """
    by_broker: dict[str, list[QueueRef]] = defaultdict(list)
    for queue in queues:
        by_broker[queue.broker_name].append(queue)
    states: dict[QueueRef, QueueState] = {}
    for broker_name, its_queues in by_broker.items():
        try:
            states |= states_of(reader, its_queues)
        except UNANSWERED as error:
            topics = {queue.topic for queue in its_queues}
            if is_missing_topic(error) and len(topics) > 1:
                for topic in sorted(topics):
                    of_topic = [queue for queue in its_queues if queue.topic == topic]
                    states |= states_of_some(reader, of_topic)
                continue
            if not may_pass(error):
                raise
            # The next batch asks again; meanwhile the others are read.
            log.warning(
                "queues of %s at broker %s are skipped in this batch: %s",
                ", ".join(sorted(topics)),
                broker_name,
                error,
            )
    return states


def _milliseconds(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)


def find_loss(
    queue: QueueRef,
    position: int,
    seen_first: int | None,
    seen_born_ms: int | None,
    now: QueueState,
) -> Loss | None:
    """None if everything from `position` on exists."""
    name = f"queue {queue.queue_id} of topic {queue.topic!r} at {queue.broker_name}"
    if (
        now.born_ms is not None
        and seen_born_ms is not None
        and seen_first is not None
        and now.born_ms > seen_born_ms
        and now.min_offset <= seen_first
    ):
        return Loss(f"{name} was deleted and created again", now.min_offset)
    if position < now.min_offset:
        return Loss(
            f"{name} starts at offset {now.min_offset}, after the next offset {position}: the"
            " messages between them have expired",
            now.min_offset,
        )
    if position > now.max_offset:
        return Loss(
            f"{name} ends at offset {now.max_offset}, before the next offset {position}: it was"
            " created again, or its broker lost messages",
            now.min_offset,
        )
    return None


log = logging.getLogger(__name__)

T = TypeVar("T")


@final
class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Pickled to tasks as it was made, which only `read`."""

    def __init__(self, options: ReadOptions, columns: Sequence[str]) -> None:
        """Raises BadOption."""
        options.check_stream()
        self._options = options
        self._columns = tuple(columns)
        self._initial: StreamOffset | None = None
        # Where a query with the trigger availableNow stops.
        self._target: Mapping[QueueRef, int] | None = None
        self._committed: Mapping[QueueRef, int] = {}
        self._last_batch_s = time.monotonic()
        self._latest: dict[QueueRef, int] = {}
        # The end of the last planned batch.
        self._reached: Mapping[QueueRef, int] = {}
        self._missing_topics: frozenset[str] = frozenset()

    # Called by Spark.

    @without_frames
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802  Spark's names.
        """The same on every call, and part of the offset of the first batch."""
        if self._initial is None:
            self._initial = self._retried(self._find_initial, is_starting=True)
        return self._initial.to_json()

    @without_frames
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        queues, _ = self._retried(self._find_queues, is_starting=True)
        try:
            states = self._retried(lambda: states_of(self._reader, queues))
        except UNANSWERED:
            # What the other brokers have is available; an unreachable one is skipped.
            states = states_of_some(self._reader, queues)
            if not states:
                raise
        self._target = {queue: state.max_offset for queue, state in states.items()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    @without_frames
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """`start` is the end of the last batch that was finished."""
        finished = StreamOffset.from_json(start)
        # Spark commits a batch when it builds the next one, and never the last: a finished batch is
        # known here first.
        self._commit_group(finished)
        states = self._states(finished)
        self._latest = {queue: state.max_offset for queue, state in states.items()}
        self._reached = finished.positions
        starts = self._starts(finished, states)
        backlog = self._backlog(finished, starts, states)
        taken = self._admitted(backlog, limit)
        if not any(taken.values()):
            return start
        self._last_batch_s = time.monotonic()
        positions = dict(finished.positions)
        for queue, count in taken.items():
            positions[queue] = starts.get(queue, finished.positions.get(queue, 0)) + count
        self._reached = positions
        return StreamOffset(
            positions,
            starts,
            {
                **finished.first_offsets,
                **{queue: each.min_offset for queue, each in states.items()},
            },
            {**finished.born_ms, **_born_ms(states)},
        ).to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Part of the query's progress. Python sources have no metrics, so `lag` is here."""
        if not self._latest:
            return None
        lags = {
            queue: max(0, offset - self._reached.get(queue, 0))
            for queue, offset in self._latest.items()
        }
        behind = {"behind": flat_table(lags), "lag": sum(lags.values())}
        return StreamOffset(self._latest).to_json() | behind

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        ranges = ranges_between(StreamOffset.from_json(start), StreamOffset.from_json(end))
        return planned(self._options, ranges)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_rows(self._options, self._columns, partition)

    def commit(self, end: dict[str, Any]) -> None:
        self._commit_group(StreamOffset.from_json(end))

    # How the calls are answered.

    @property
    def _reader(self) -> TopicReader:
        return topic_reader(self._options.cluster, pull_group(self._options))

    def _find_initial(self) -> StreamOffset:
        bounds = self._reader.bounds(named_queues(self._reader, self._options))
        starts = starting_offsets(self._reader, self._options, bounds, Position.LATEST)
        return StreamOffset(starts, starts)

    def _find_queues(self) -> FoundQueues:
        if self._options.fail_on_data_loss:
            return FoundQueues(queues_of(self._reader, self._options), frozenset())
        found = existing_queues(self._reader, self._options)
        grace = min(self._options.cluster.retry_timeout, MISSING_GRACE)
        deleted = {
            topic
            for topic in found.missing
            if topic in self._missing_topics or stays_missing(self._reader, topic, grace)
        }
        if deleted != found.missing:
            found = existing_queues(self._reader, self._options)
        for topic in deleted - self._missing_topics:
            log.warning("data loss: topic %s was deleted; the other topics are read", topic)
        self._missing_topics = found.missing
        return found

    def _states(self, finished: StreamOffset) -> dict[QueueRef, QueueState]:
        """The queues of reachable brokers, new ones included."""
        queues, missing = self._retried(self._find_queues)
        known = {queue for queue in finished.positions if queue.topic not in missing}
        states = states_of_some(self._reader, {*queues, *known})
        # With availableNow, skipping an unread queue would end the query as if it were complete.
        unread = [
            queue
            for queue, end in (self._target or {}).items()
            if queue not in states
            and queue.topic not in missing
            and finished.positions.get(queue, 0) < end
        ]
        if unread:
            states |= self._retried(lambda: states_of(self._reader, unread))
        return states

    def _retried(self, ask: Callable[[], T], *, is_starting: bool = False) -> T:
        timeout = self._options.cluster.retry_timeout
        return retried(ask, timeout, is_starting=is_starting)

    def _starts(
        self, finished: StreamOffset, states: Mapping[QueueRef, QueueState]
    ) -> dict[QueueRef, int]:
        """Of queues that do not resume where the last batch ended. Raises DataLoss."""
        is_first = finished.starts == finished.positions
        starts = dict(finished.positions) if is_first else {}
        losses: list[str] = []
        for queue, state in states.items():
            position = finished.positions.get(queue)
            if position is None:
                starts[queue] = state.min_offset
                continue
            loss = find_loss(
                queue,
                position,
                finished.first_offsets.get(queue),
                finished.born_ms.get(queue),
                state,
            )
            if loss is not None:
                losses.append(loss.reason)
                starts[queue] = loss.resume
        if losses:
            if self._options.fail_on_data_loss:
                raise DataLoss(losses)
            for reason in losses:
                log.warning("data loss: %s", reason)
        return starts

    def _backlog(
        self,
        finished: StreamOffset,
        starts: Mapping[QueueRef, int],
        states: Mapping[QueueRef, QueueState],
    ) -> dict[QueueRef, int]:
        backlog: dict[QueueRef, int] = {}
        for queue, state in states.items():
            end = state.max_offset
            if self._target is not None:
                end = min(end, self._target.get(queue, 0))
            start = starts.get(queue, finished.positions.get(queue, 0))
            backlog[queue] = max(0, end - start)
        return backlog

    def _admitted(self, backlog: Mapping[QueueRef, int], limit: ReadLimit) -> dict[QueueRef, int]:
        if isinstance(limit, ReadAllAvailable):
            return dict(backlog)
        options = self._options
        # With availableNow there is nothing to wait for.
        waited_s = time.monotonic() - self._last_batch_s
        delay_s_max = options.max_trigger_delay.total_seconds()
        count = sum(backlog.values())
        if self._target is None and is_held_back(
            count, options.min_offsets_per_trigger, waited_s, delay_s_max
        ):
            return {}
        count_max = options.max_offsets_per_trigger
        if options.max_bytes_per_trigger is not None and count:
            by_size = max(1, int(options.max_bytes_per_trigger / self._average_size(backlog)))
            count_max = by_size if count_max is None else min(count_max, by_size)
        return dict(backlog) if count_max is None else admitted(backlog, count_max)

    def _average_size(self, backlog: Mapping[QueueRef, int]) -> float:
        waiting = max(backlog, key=lambda queue: backlog[queue])
        return average_size(self._reader, waiting, self._latest[waiting] - backlog[waiting])

    def _commit_group(self, finished: StreamOffset) -> None:
        """Shows tools the progress of the query. A failure must not stop it."""
        group = self._options.group_id
        is_initial = finished.starts == finished.positions
        if group is None or not self._options.commits_offsets or is_initial:
            return
        changed = {
            queue: offset
            for queue, offset in finished.positions.items()
            if self._committed.get(queue) != offset
        }
        if not changed:
            return
        try:
            self._reader.commit(group, changed)
        except UNANSWERED as error:
            log.warning("cannot commit offsets of group %s: %s", group, error)
        else:
            self._committed = dict(self._committed) | changed


def _born_ms(states: Mapping[QueueRef, QueueState]) -> dict[QueueRef, int]:
    return {queue: each.born_ms for queue, each in states.items() if each.born_ms is not None}
