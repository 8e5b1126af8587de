"""How far groups have come in their topics, and how far they are behind.

What is not known is None: a group that never committed is not one that is at offset 0.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from roquet.client.admin.servers import AdminServers, Master, ask_each
from roquet.client.cluster.brokers import reply_body
from roquet.client.moments import moment_of
from roquet.client.queue_ref import QueueRef
from roquet.clock import Clock
from roquet.protocol.bodies.consume_stats import (
    ConsumeOffsets,
    ConsumeStats,
    ConsumeTimeSpan,
    ConsumeTimeSpans,
)
from roquet.protocol.bodies.offset_table import ConsumerOffsetTable
from roquet.protocol.bodies.queue_table import MessageQueue
from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.addressed import NoFields
from roquet.protocol.headers.groups import ConsumeStatsHeader
from roquet.protocol.headers.topics import ConsumeTimeSpanHeader

# The time of a message that is not there is -1, which makes an age of half a century of it.
_PLAUSIBLE_MS: Final = 20 * 366 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class QueueProgress:
    queue: QueueRef
    broker_offset: int
    # Where the group goes on; None if it never committed here.
    consumer_offset: int | None
    # When the last message was stored that the group has taken.
    last_taken: datetime | None
    # The age of the oldest message that it has not taken.
    time_lag: timedelta | None

    @property
    def lag(self) -> int | None:
        if self.consumer_offset is None:
            return None
        return max(0, self.broker_offset - self.consumer_offset)


@dataclass(frozen=True, slots=True)
class GroupProgress:
    group: str
    queues: tuple[QueueProgress, ...]
    # Messages a second, as brokers count them.
    rate: float

    @property
    def lag(self) -> int | None:
        """Of all queues; None if it is not known of one of them."""
        lags = [each.lag for each in self.queues if each.lag is not None]
        return sum(lags) if len(lags) == len(self.queues) else None

    @property
    def time_lag(self) -> timedelta | None:
        """The largest of all queues; None if it is not known of one of them."""
        lags = [each.time_lag for each in self.queues if each.time_lag is not None]
        return max(lags, default=timedelta()) if len(lags) == len(self.queues) else None


async def group_progress(
    servers: AdminServers, clock: Clock, group: str, topic: str | None
) -> GroupProgress:
    masters = await (servers.masters() if topic is None else servers.masters_of(topic))

    async def progress(master: Master) -> tuple[float, list[QueueProgress]]:
        header = ConsumeStatsHeader(consumer_group=group, topic=topic)
        reply = await servers.brokers.ask(master.address, RequestCode.GET_CONSUME_STATS, header)
        stats = reply_body(ConsumeStats, reply, master.broker_name)
        table = dict(stats.offset_table)
        unknown = await _never_committed(servers, group, master, table)
        spans = await _time_spans(servers, group, master, {queue.topic for queue in table})
        now_ms = clock.now_ms()
        return stats.consume_tps, [
            _queue_progress(servers, queue, offsets, spans.get(queue), now_ms)
            if queue not in unknown
            else QueueProgress(_ref(servers, queue), offsets.broker_offset, None, None, None)
            for queue, offsets in table.items()
        ]

    parts = (await ask_each(masters, progress)).values()
    queues = sorted((each for _, part in parts for each in part), key=lambda each: each.queue)
    return GroupProgress(servers.user_name(group), tuple(queues), sum(rate for rate, _ in parts))


def _queue_progress(
    servers: AdminServers,
    queue: MessageQueue,
    offsets: ConsumeOffsets,
    span: ConsumeTimeSpan | None,
    now_ms: int,
) -> QueueProgress:
    return QueueProgress(
        _ref(servers, queue),
        offsets.broker_offset,
        offsets.consumer_offset,
        moment_of(offsets.last_timestamp),
        time_lag_of(offsets, span, now_ms),
    )


def time_lag_of(
    offsets: ConsumeOffsets, span: ConsumeTimeSpan | None, now_ms: int
) -> timedelta | None:
    if offsets.consumer_offset >= offsets.broker_offset:
        return timedelta()
    if span is None:
        return None
    if 0 <= span.delay_time < _PLAUSIBLE_MS:
        return timedelta(milliseconds=span.delay_time)
    # The next message of the group has expired, so it goes on with the oldest one.
    if span.min_time_stamp > 0:
        return timedelta(milliseconds=max(0, now_ms - span.min_time_stamp))
    return None


async def _never_committed(
    servers: AdminServers,
    group: str,
    master: Master,
    table: dict[MessageQueue, ConsumeOffsets],
) -> set[MessageQueue]:
    """Brokers say 0 for a queue without an offset; only their whole table says more."""
    zeros = {queue for queue, offsets in table.items() if not offsets.consumer_offset}
    if not zeros:
        return zeros
    kept = await kept_offsets(servers, master)
    return {
        queue
        for queue in zeros
        if queue.queue_id not in kept.offset_table.get(f"{queue.topic}@{group}", ())
    }


async def kept_offsets(servers: AdminServers, master: Master) -> ConsumerOffsetTable:
    """All offsets of all groups that a broker keeps."""
    code = RequestCode.GET_ALL_CONSUMER_OFFSET
    reply = await servers.brokers.ask(master.address, code, NoFields())
    return reply_body(ConsumerOffsetTable, reply, master.broker_name)


async def _time_spans(
    servers: AdminServers, group: str, master: Master, topics: Iterable[str]
) -> dict[MessageQueue, ConsumeTimeSpan]:
    spans: dict[MessageQueue, ConsumeTimeSpan] = {}
    for topic in topics:
        header = ConsumeTimeSpanHeader(topic=topic, group=group)
        code = RequestCode.QUERY_CONSUME_TIME_SPAN
        reply = await servers.brokers.ask(master.address, code, header)
        answer = reply_body(ConsumeTimeSpans, reply, master.broker_name)
        spans.update({each.message_queue: each for each in answer.consume_time_span_set})
    return spans


def _ref(servers: AdminServers, queue: MessageQueue) -> QueueRef:
    return QueueRef(servers.user_name(queue.topic), queue.broker_name, queue.queue_id)
