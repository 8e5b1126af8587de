"""Splits of a store: one snapshot of what is read, cut into parts of about the same size."""

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from roquet.pipeline.errors import BadOption, DamagedStore
from roquet.pipeline.limits import NO_LIMITS, ReadLimits, Span
from roquet.pipeline.options.reading import Include, OnDamage, StoreOptions
from roquet.pipeline.planning import core_count, even_split_size
from roquet.pipeline.store_source.rows import StoreSplit
from roquet.protocol.names import is_system_topic
from roquet.store.offline.reader import StoreReader
from roquet.store.offline.snapshot import QueueBounds, StoreSnapshot

log = logging.getLogger(__name__)

# The number of topics in the text of an error.
_TOPICS_SHOWN: Final = 20
_TIME_MS_MAX: Final = 2**63 - 1
# Retries, dead letters and light queues: a pattern does not match them.
_MADE_BY_SERVERS: Final = "%"


def splits_of(options: StoreOptions, limits: ReadLimits = NO_LIMITS) -> list[StoreSplit]:
    """What each task reads. Raises BadOption, DamagedStore and StoreError."""
    try:
        with StoreReader.open(store_directory(options)) as reader:
            topics = _topics(options, reader)
            snapshot = reader.snapshot(topics, include_all=_is_all(options))
    except OSError as error:
        place = error.filename or options.path
        raise BadOption("path", f"{place} cannot be read: {error.strerror}") from error
    _check_broken_queues(options, snapshot)
    snapshot = _in_time(options, snapshot)
    bounds = _bounds(options, snapshot)
    if bounds is not None and limits != NO_LIMITS:
        bounds = _limited(options, bounds, limits)
        topics = [topic for topic in topics if any(topic == queue[0] for queue in bounds)]
    if not topics:
        return []
    return [
        StoreSplit(snapshot.range(start, end), tuple(topics), bounds)
        for start, end in snapshot.splits(_split_size(options, snapshot))
    ]


def within_times(options: StoreOptions, stored_ms: Span) -> StoreOptions:
    """The options, also limited to these store times."""
    given = Span(options.starting_timestamp, options.ending_timestamp)
    start, end = given.within(stored_ms)
    if start is not None and end is not None:
        end = max(start, end)
    return replace(options, starting_timestamp=start, ending_timestamp=end)


def _split_size(options: StoreOptions, snapshot: StoreSnapshot) -> int:
    if options.split_size is not None:
        return options.split_size
    sizes = [segment.size for segment in snapshot.segments]
    # Splits end between segments; without room for one more, the last one would be left over.
    return even_split_size(sum(sizes), core_count()) + max(sizes, default=0)


def store_directory(options: StoreOptions) -> Path:
    """Spark's paths may be URLs; only file URLs are supported."""
    scheme, is_url, place = options.path.partition("://")
    if not is_url:
        place = options.path.removeprefix("file:")
    elif scheme != "file":
        raise BadOption("path", f"a store is read in place, not from {scheme!r}")
    return Path(place).absolute()


def _is_all(options: StoreOptions) -> bool:
    return options.include is Include.ALL


def _topics(options: StoreOptions, reader: StoreReader) -> list[str]:
    """Raises BadOption for topics without messages in this store."""
    there = {*reader.queues(), *(topic for topic, _ in reader.broken_queues)}
    named = options.topics.named
    if named is None:
        return options.topics.chosen(filter(_is_users, there))
    unknown = [topic for topic in named if topic not in there]
    # A deleted topic exists only in the log.
    if unknown and not _is_all(options):
        raise BadOption(
            "topic" if options.topics.topic else "topics",
            f"{', '.join(unknown)} has no messages in {reader.root}; topics: {_shown(there)}",
        )
    return list(dict.fromkeys(named))


def user_topics(reader: StoreReader) -> list[str]:
    """The topics with messages, without those of the system."""
    return sorted(filter(_is_users, reader.queues()))


def _is_users(topic: str) -> bool:
    return not is_system_topic(topic) and not topic.startswith(_MADE_BY_SERVERS)


def _shown(topics: set[str]) -> str:
    users = sorted(filter(_is_users, topics))
    listed = ", ".join(users[:_TOPICS_SHOWN]) or "none"
    left = len(users) - _TOPICS_SHOWN
    return f"{listed} and {left} more" if left > 0 else listed


def _check_broken_queues(options: StoreOptions, snapshot: StoreSnapshot) -> None:
    """Raises DamagedStore for queues whose messages look like deleted ones."""
    if _is_all(options):
        return
    broken = [f"queue {queue_id} of topic {topic!r}" for topic, queue_id in snapshot.broken_queues]
    lost = [
        name
        for name, key in zip(broken, snapshot.broken_queues, strict=True)
        if key not in snapshot.queues
    ]
    if lost and options.on_damage is OnDamage.FAIL:
        raise DamagedStore(
            snapshot.root,
            [f"{name} cannot be read, `roquet store repair` rebuilds it" for name in lost],
        )
    if broken:
        log.warning(
            "%s: damaged queues, `roquet store repair` rebuilds them: %s; not read: %s",
            snapshot.root,
            ", ".join(broken),
            ", ".join(lost) or "none",
        )


def _in_time(options: StoreOptions, snapshot: StoreSnapshot) -> StoreSnapshot:
    start, end = options.starting_timestamp, options.ending_timestamp
    if start is None and end is None:
        return snapshot
    return snapshot.between(start or 0, _TIME_MS_MAX if end is None else end)


def _bounds(
    options: StoreOptions, snapshot: StoreSnapshot
) -> dict[tuple[str, int], QueueBounds] | None:
    """None if every record is read, also those that no queue refers to."""
    return None if _is_all(options) else snapshot.queues


def _limited(
    options: StoreOptions, bounds: Mapping[tuple[str, int], QueueBounds], limits: ReadLimits
) -> dict[tuple[str, int], QueueBounds]:
    """The queues, and the offsets of them, that can have messages within the limits."""
    found: dict[tuple[str, int], QueueBounds] = {}
    for (topic, queue_id), each in bounds.items():
        known = {"topic": topic, "brokerName": options.broker_name, "queueId": queue_id}
        start, end = limits.offsets_in(each.min_offset, each.max_offset)
        if limits.has_queue(known) and start < end:
            found[topic, queue_id] = each._replace(min_offset=start, max_offset=end)
    return found
