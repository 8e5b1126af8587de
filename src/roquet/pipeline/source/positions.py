"""Where reading starts and ends: words, offsets and times of options as offsets of queues."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from roquet.client.blocking.reader import TopicReader
from roquet.client.errors import TopicNotFound
from roquet.client.queue_ref import QueueRef
from roquet.client.reader.reader import Bounds
from roquet.pipeline.errors import BadOption, DataLoss
from roquet.pipeline.limits import ReadLimits, columns_of_queue, is_light_queue
from roquet.pipeline.options.reading import Position, QueueOffsets, ReadOptions
from roquet.pipeline.planning import QueueRange
from roquet.pipeline.queue_offsets import EARLIEST_OFFSET, LATEST_OFFSET, queue_key
from roquet.protocol.names import is_system_topic
from roquet.protocol.subscription import TAG_SEPARATOR


class _Bound(NamedTuple):
    """One end of what is read, in the three ways it can be given, and the default."""

    option: str
    offsets: Position | QueueOffsets | None
    timestamp: int | None
    timestamps: Mapping[QueueRef, int] | None
    default: Position


def starting_offsets(
    reader: TopicReader,
    options: ReadOptions,
    bounds: Mapping[QueueRef, Bounds],
    default: Position,
) -> dict[QueueRef, int]:
    """The first offset of each queue. Raises BadOption, and DataLoss for offsets that are gone."""
    bound = _Bound(
        "startingOffsets",
        options.starting_offsets,
        options.starting_timestamp,
        options.starting_offsets_by_timestamp,
        default,
    )
    return _inside(_resolved(reader, options, bounds, bound), bounds, options)


def batch_ranges(reader: TopicReader, options: ReadOptions) -> list[QueueRange]:
    """Everything that a batch reads. Raises BadOption and DataLoss."""
    bounds = reader.bounds(named_queues(reader, options))
    starts = starting_offsets(reader, options, bounds, Position.EARLIEST)
    bound = _Bound(
        "endingOffsets",
        options.ending_offsets,
        options.ending_timestamp,
        options.ending_offsets_by_timestamp,
        Position.LATEST,
    )
    ends = _inside(_resolved(reader, options, bounds, bound), bounds, options)
    return [QueueRange(queue, start, max(start, ends[queue])) for queue, start in starts.items()]


def limited_ranges(
    reader: TopicReader, ranges: Sequence[QueueRange], limits: ReadLimits, options: ReadOptions
) -> list[QueueRange]:
    """The parts of the ranges that can have messages within the limits."""
    has_namespace = options.cluster.namespace is not None
    light = [each for each in ranges if is_light_queue(each.queue.topic)]
    kept = [
        QueueRange(each.queue, *limits.offsets_in(each.start, each.end))
        for each in ranges
        if each not in light
        and limits.has_queue(columns_of_queue(each.queue, has_namespace=has_namespace))
    ]
    return light + _stored_within(reader, [each for each in kept if each.row_count], limits)


def with_tags(options: ReadOptions, limits: ReadLimits) -> ReadOptions:
    """Brokers leave out messages with other tags, unless they filter already.

    Topics of the system do not have hashes of tags in their queues.
    """
    is_filtered = options.tag_expression is not None or options.sql_expression is not None
    if limits.tags is None or is_filtered or any(map(is_system_topic, options.topics.named or ())):
        return options
    return replace(options, tag_expression=TAG_SEPARATOR.join(limits.tags))


def _stored_within(
    reader: TopicReader, ranges: Sequence[QueueRange], limits: ReadLimits
) -> list[QueueRange]:
    start_ms, end_ms = limits.stored_ms
    queues = [each.queue for each in ranges]
    starts = {} if start_ms is None else _at_times(reader, dict.fromkeys(queues, start_ms))
    ends = {} if end_ms is None else _at_times(reader, dict.fromkeys(queues, end_ms))
    found = []
    for queue, start, end in ranges:
        first = min(max(start, starts.get(queue, start)), end)
        found.append(QueueRange(queue, first, max(first, min(end, ends.get(queue, end)))))
    return found


def queues_of(reader: TopicReader, options: ReadOptions) -> list[QueueRef]:
    """All queues of all selected topics, as they are now."""
    topics = _selected_topics(reader, options)
    return _chosen([queue for topic in topics for queue in reader.queues(topic)], options)


def _selected_topics(reader: TopicReader, options: ReadOptions) -> Sequence[str]:
    named = options.topics.named
    return options.topics.chosen(reader.topics()) if named is None else named


def _chosen(queues: list[QueueRef], options: ReadOptions) -> list[QueueRef]:
    if options.queues is None:
        return queues
    return [queue for queue in queues if queue in options.queues]


class FoundQueues(NamedTuple):
    """`missing` are selected topics that do not exist now."""

    queues: list[QueueRef]
    missing: frozenset[str]


def existing_queues(reader: TopicReader, options: ReadOptions) -> FoundQueues:
    """As `queues_of`, without topics that were deleted. Raises TopicNotFound if all were."""
    queues: list[QueueRef] = []
    missing: dict[str, TopicNotFound] = {}
    topics = _selected_topics(reader, options)
    for topic in topics:
        try:
            queues += reader.queues(topic)
        except TopicNotFound as error:
            if not error.is_missing:
                raise
            missing[topic] = error
    if missing and len(missing) == len(topics):
        raise next(iter(missing.values()))
    return FoundQueues(_chosen(queues, options), frozenset(missing))


def named_queues(reader: TopicReader, options: ReadOptions) -> list[QueueRef]:
    """The same when a query starts. Raises BadOption for queues that do not exist."""
    queues = queues_of(reader, options)
    unknown = sorted((options.queues or frozenset()) - set(queues))
    if unknown:
        raise BadOption("queues", f"no such queue: {', '.join(map(queue_key, unknown))}")
    return queues


def _resolved(
    reader: TopicReader,
    options: ReadOptions,
    bounds: Mapping[QueueRef, Bounds],
    bound: _Bound,
) -> dict[QueueRef, int]:
    if bound.timestamp is not None:
        return _at_times(reader, dict.fromkeys(bounds, bound.timestamp))
    found = _by_word(reader, options, bounds, bound)
    if bound.timestamps is not None:
        _check_known(f"{bound.option}ByTimestamp", bound.timestamps, bounds)
        found |= _at_times(reader, bound.timestamps)
    elif isinstance(bound.offsets, QueueOffsets):
        _check_known(bound.option, bound.offsets.by_queue, bounds)
        found |= {
            queue: _absolute(offset, bounds[queue])
            for queue, offset in bound.offsets.by_queue.items()
        }
    return found


def _by_word(
    reader: TopicReader,
    options: ReadOptions,
    bounds: Mapping[QueueRef, Bounds],
    bound: _Bound,
) -> dict[QueueRef, int]:
    word = bound.offsets
    if isinstance(word, QueueOffsets) or bound.timestamps is not None:
        # Naming some queues selects all of the others.
        word = Position.LATEST if bound.option == "endingOffsets" else Position.EARLIEST
    match word or bound.default:
        case Position.LATEST:
            return {queue: each.max_offset for queue, each in bounds.items()}
        case Position.EARLIEST:
            return {queue: each.min_offset for queue, each in bounds.items()}
        case Position.GROUP:
            assert options.group_id is not None
            committed = reader.committed(options.group_id, list(bounds))
            return {
                queue: each.min_offset if (offset := committed[queue]) is None else offset
                for queue, each in bounds.items()
            }


def _at_times(reader: TopicReader, times_ms: Mapping[QueueRef, int]) -> dict[QueueRef, int]:
    """One request for all queues with the same time."""
    by_time: dict[int, list[QueueRef]] = {}
    for queue, time_ms in times_ms.items():
        by_time.setdefault(time_ms, []).append(queue)
    found: dict[QueueRef, int] = {}
    for time_ms, queues in by_time.items():
        found |= reader.offsets_at(queues, datetime.fromtimestamp(time_ms / 1000, UTC))
    return found


def _check_known(
    option: str, named: Mapping[QueueRef, int], bounds: Mapping[QueueRef, Bounds]
) -> None:
    unknown = [queue_key(queue) for queue in named if queue not in bounds]
    if unknown:
        there = ", ".join(sorted(map(queue_key, bounds))) or "none"
        raise BadOption(option, f"no such queue: {', '.join(unknown)}; existing queues: {there}")


def _absolute(offset: int, bounds: Bounds) -> int:
    if offset == EARLIEST_OFFSET:
        return bounds.min_offset
    if offset == LATEST_OFFSET:
        return bounds.max_offset
    return offset


def _inside(
    offsets: Mapping[QueueRef, int],
    bounds: Mapping[QueueRef, Bounds],
    options: ReadOptions,
) -> dict[QueueRef, int]:
    """The offsets, each within its queue. Raises DataLoss if failOnDataLoss is set."""
    inside: dict[QueueRef, int] = {}
    losses: list[str] = []
    for queue, offset in offsets.items():
        each = bounds[queue]
        inside[queue] = min(max(offset, each.min_offset), each.max_offset)
        if inside[queue] != offset:
            losses.append(
                f"{queue_key(queue)} has offsets {each.min_offset} to {each.max_offset},"
                f" and {offset} was requested"
            )
    if losses and options.fail_on_data_loss:
        raise DataLoss(losses)
    return inside
