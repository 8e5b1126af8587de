"""The progress and the lag of consumer groups.

What a group has left to read of a queue, by its committed offset:

    an offset                       everything from there on
    none, the queue is empty        nothing
    none, members start first       everything
    none, the topic is new          everything: brokers let a new group start there
    none, members start last        nothing: they start at the end of the queue
    none, no member is connected    unknown: None, never 0; everything of its retries
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from roquet.client.admin.groups import group_settings, members_at
from roquet.client.admin.servers import AdminServers, Master
from roquet.client.arguments import moment_of
from roquet.client.cluster.brokers import reply_body
from roquet.client.errors import GroupNotFound, RequestRefused
from roquet.client.queue_ref import QueueRef, queue_ref
from roquet.clock import Clock
from roquet.protocol.bodies.body import MessageQueue
from roquet.protocol.bodies.clients import ConsumeFromWhere, ConsumerConnections
from roquet.protocol.bodies.offsets import (
    ConsumeOffsets,
    ConsumeStats,
    ConsumeTimeSpan,
    ConsumeTimeSpans,
)
from roquet.protocol.codes import RequestCode
from roquet.protocol.headers.groups import ConsumeStatsHeader, ConsumeTimeSpanHeader
from roquet.protocol.names import RETRY_PREFIX, retry_topic

# The time of a missing message is -1, which would be an age of half a century.
_PLAUSIBLE_MS: Final = 20 * 366 * 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """The progress of a group in one queue."""

    queue: QueueRef
    broker_offset: int
    # The committed offset; None if the group never committed here.
    consumer_offset: int | None
    # The next offset to read: the same, or where it would start; None if unknown.
    next_offset: int | None
    # When the last message that the group consumed was stored.
    last_taken: datetime | None
    # The age of the oldest message that it has not consumed.
    time_lag: timedelta | None

    @property
    def lag(self) -> int | None:
        """Messages that are left; None if the start offset of the group is unknown."""
        if self.next_offset is None:
            return None
        return max(0, self.broker_offset - self.next_offset)


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """The progress of a group in all of its queues."""

    group: str
    queues: tuple[QueueProgress, ...]
    # Messages a second that members pulled, as brokers count them. What members have finished of
    # them only they know: `MemberInfo.done_rate`.
    pulled_rate: float

    @property
    def rate(self) -> float:
        """The older name of `pulled_rate`."""
        return self.pulled_rate

    @property
    def lag(self) -> int | None:
        """Of all queues; None if that of one is unknown, or if there are none."""
        lags = [each.lag for each in self.queues if each.lag is not None]
        return sum(lags) if lags and len(lags) == len(self.queues) else None

    @property
    def retries_ready(self) -> int:
        """The part of the lag that is in the retry topic of the group."""
        return sum(
            each.lag or 0 for each in self.queues if each.queue.topic.startswith(RETRY_PREFIX)
        )

    @property
    def time_lag(self) -> timedelta | None:
        """The largest of all queues; None if that of one is unknown, or if there are none."""
        lags = [each.time_lag for each in self.queues if each.time_lag is not None]
        return max(lags) if lags and len(lags) == len(self.queues) else None

    def _repr_html_(self) -> str:
        """In a notebook: the lag of each queue as a bar, and all that is known as a table."""
        from roquet.notebook_html import (  # noqa: PLC0415
            Bar,
            bars_svg,
            facts_html,
            rows_html,
        )

        bars = [Bar("@".join(map(str, each.queue)), each.lag) for each in self.queues]
        columns = ("topic", "broker", "queue", "offset", "next", "lag", "last taken", "time lag")
        rows = [
            (
                *each.queue,
                each.broker_offset,
                each.next_offset,
                each.lag,
                each.last_taken,
                each.time_lag,
            )
            for each in self.queues
        ]
        facts = {"group": self.group, "lag": self.lag, "time lag": self.time_lag}
        return facts_html(facts) + bars_svg(bars) + rows_html(columns, rows)


async def group_progress(
    servers: AdminServers, clock: Clock, group: str, topic: str | None
) -> GroupProgress:
    """Raises GroupNotFound."""
    brokers = await (servers.replicas() if topic is None else servers.replicas_of(topic))

    async def progress(master: Master) -> tuple[float, list[QueueProgress]]:
        members = await members_at(servers, group, master)
        stats = await _stats(servers, group, master, topic)
        if topic is None:
            # Topics that it reads without a committed offset. Retries may wait for members.
            read = {retry_topic(group)} if members is None else members.subscription_table.keys()
            known = {queue.topic for queue in stats.offset_table}
            for each in read - known:
                more = await _stats(servers, group, master, each)
                stats.offset_table.update(more.offset_table)
        table = dict(stats.offset_table)
        starts = await _start_offsets(servers, group, master, table, members)
        spans = await _time_spans(servers, group, master, {queue.topic for queue in table})
        now_ms = clock.now_ms()
        return stats.consume_tps, [
            QueueProgress(
                _ref(servers, queue),
                offsets.broker_offset,
                None if queue in starts else offsets.consumer_offset,
                starts.get(queue, offsets.consumer_offset),
                None if queue in starts else moment_of(offsets.last_timestamp),
                time_lag_of(
                    starts.get(queue, offsets.consumer_offset),
                    offsets.broker_offset,
                    spans.get(queue),
                    now_ms,
                ),
            )
            for queue, offsets in table.items()
        ]

    try:
        parts = (await servers.ask_each(brokers, progress)).values()
    except RequestRefused:
        await _check_known(servers, group)
        raise
    queues = sorted((each for _, part in parts for each in part), key=lambda each: each.queue)
    # Only now: it takes the settings of all groups.
    if topic is not None or not queues:
        await _check_known(servers, group)
    return GroupProgress(servers.user_name(group), tuple(queues), sum(rate for rate, _ in parts))


def time_lag_of(
    next_offset: int | None, broker_offset: int, span: ConsumeTimeSpan | None, now_ms: int
) -> timedelta | None:
    if next_offset is None:
        return None
    if next_offset >= broker_offset:
        return timedelta()
    if span is None:
        return None
    if 0 <= span.delay_time < _PLAUSIBLE_MS:
        return timedelta(milliseconds=span.delay_time)
    # The next message of the group has expired, so it resumes at the oldest one.
    if span.min_time_stamp > 0:
        return timedelta(milliseconds=max(0, now_ms - span.min_time_stamp))
    return None


async def _check_known(servers: AdminServers, group: str) -> None:
    """A broker knows a group by its settings, its offsets or its connected members."""
    if await group_settings(servers, group):
        return

    async def is_known(master: Master) -> bool:
        kept = await servers.brokers.kept_offsets(master.address)
        if any(key.rpartition("@")[2] == group for key in kept):
            return True
        return await members_at(servers, group, master) is not None

    if not any((await servers.ask_each(await servers.replicas(), is_known)).values()):
        raise GroupNotFound(servers.user_name(group))


async def _stats(
    servers: AdminServers, group: str, master: Master, topic: str | None
) -> ConsumeStats:
    header = ConsumeStatsHeader(consumer_group=group, topic=topic)
    reply = await servers.brokers.ask(master.address, RequestCode.GET_CONSUME_STATS, header)
    return reply_body(ConsumeStats, reply, master.broker_name)


async def _start_offsets(
    servers: AdminServers,
    group: str,
    master: Master,
    table: dict[MessageQueue, ConsumeOffsets],
    members: ConsumerConnections | None,
) -> dict[MessageQueue, int | None]:
    """The offset where the group would start in each queue without a committed one."""
    # Statistics have 0 for a queue without an offset, too.
    zeros = [queue for queue, offsets in table.items() if offsets.consumer_offset <= 0]
    refs = [queue_ref(queue) for queue in zeros]
    committed = await servers.brokers.committed_at(master.address, group, refs)
    return {
        queue: await start_offset_at(
            servers, group, master, queue, table[queue].broker_offset, members
        )
        for queue in zeros
        if queue_ref(queue) not in committed
    }


async def start_offset_at(
    servers: AdminServers,
    group: str,
    master: Master,
    queue: MessageQueue,
    end: int,
    members: ConsumerConnections | None,
) -> int | None:
    """Where a group without a committed offset would start in a queue; None if unknown."""
    brokers, address = servers.brokers, master.address
    first = await brokers.min_offset(queue_ref(queue), address=address)
    start = None if members is None else members.consume_from_where
    is_retry = queue.topic == retry_topic(group)
    if first >= end or is_retry or start == ConsumeFromWhere.FIRST_OFFSET:
        return first
    if start not in (None, ConsumeFromWhere.LAST_OFFSET):
        return None  # A time that only the members know.
    if await brokers.committed_or_young(group, queue_ref(queue), address=address) is not None:
        return first
    return None if members is None else end


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
