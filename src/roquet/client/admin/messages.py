"""Finding messages: by id, by key, by time; dead letters, and the traced events of a message."""

import asyncio
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from roquet.client.admin.servers import AdminServers, Master
from roquet.client.admin.topics import TopicStatistics, list_topics, topic_statistics
from roquet.client.arguments import moment_of, timestamp_ms
from roquet.client.cluster.brokers import by_broker
from roquet.client.cluster.pulling import PullOrder, PullStatus, PullTerms
from roquet.client.errors import (
    BadArgument,
    MessageNotFound,
    RequestRefused,
    TopicNotFound,
    Unreachable,
)
from roquet.client.group.subscriptions import subscription_of
from roquet.client.producer.outgoing import RESERVED_NAMES
from roquet.client.queue_ref import QueueRef
from roquet.client.received import (
    ReceivedMessage,
    origin_topic,
    received_messages,
    received_of,
)
from roquet.client.trace.tracing import (
    EndTransactionRecord,
    PubRecord,
    SubAfterRecord,
    SubBeforeRecord,
    TraceRecord,
    parse_traces,
)
from roquet.clock import Clock
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.errors import BadMessage, ProtocolError
from roquet.protocol.headers.messages import QueryMessageHeader, ViewMessageHeader
from roquet.protocol.messages.message import Message
from roquet.protocol.messages.message_id import OffsetId, parse_offset_id, parse_unique_id
from roquet.protocol.names import DLQ_PREFIX, TRACE_TOPIC

COUNT_MAX: Final = 64

_PULL_COUNT: Final = 32
_FIRST_MS: Final = 0
_LAST_MS: Final = 2**63 - 1
# Clocks of producers and brokers are not quite the same.
_CLOCK_DIFFERENCE_MS: Final = 1000
# A broker reads its disk for it, so this may take longer than other requests.
_QUERY_TIMEOUT_FACTOR: Final = 3
# Topics that are asked about at the same time.
_TOPICS_AT_ONCE: Final = 8
_NOT_FOUND: Final = (ResponseCode.QUERY_NOT_FOUND, ResponseCode.NO_MESSAGE)


async def message_by_id(
    servers: AdminServers, clock: Clock, topic: str, message_id: str
) -> ReceivedMessage:
    """Of either kind of id. Raises MessageNotFound."""
    try:
        place = parse_offset_id(message_id)
    except BadMessage:
        raise BadArgument(f"{message_id[:100]!r} is not a message id", "message_id") from None
    found = await _message_at(servers, topic, place)
    if found is None:
        found = await _message_by_unique_id(servers, clock, topic, message_id)
    if found is None:
        raise MessageNotFound(servers.user_name(topic), f"the id {message_id}")
    return found


async def messages_by_key(
    servers: AdminServers,
    topic: str,
    key: str,
    begin: datetime | None,
    end: datetime | None,
    count_max: int,
) -> list[ReceivedMessage]:
    """Oldest first. Brokers compare hashes, so what they find is compared again."""
    header = QueryMessageHeader(
        topic=topic,
        key=key,
        max_num=count_max,
        begin_timestamp=_FIRST_MS if begin is None else timestamp_ms(begin, "begin"),
        end_timestamp=_LAST_MS if end is None else timestamp_ms(end, "end"),
    )
    found = await _query(servers, header)
    return _oldest_first(each for each in found if key in each.keys)[:count_max]


async def messages_between(
    servers: AdminServers,
    topic: str,
    begin: datetime | None,
    end: datetime | None,
    count_max: int,
) -> list[ReceivedMessage]:
    """By the time they were stored, oldest first, without those at `end`."""
    route = await servers.route(topic)
    queues = by_broker(route.readable)

    async def between(broker: Master) -> list[ReceivedMessage]:
        here = queues.get(broker.broker_name, ())
        parts = await asyncio.gather(
            *(_between(servers, queue, begin, end, count_max) for queue in here)
        )
        return [each for part in parts for each in part]

    parts = await servers.ask_each(servers.replicas_in(route), between)
    return _oldest_first(each for part in parts.values() for each in part)[:count_max]


async def messages_of_queue(
    servers: AdminServers, queue: QueueRef, offset: int, count_max: int
) -> list[ReceivedMessage]:
    """The messages from an offset on. Raises TopicNotFound."""
    await servers.route(queue.topic)
    found: list[ReceivedMessage] = []
    async for message in _messages_from(servers, queue, offset):
        if len(found) == count_max:
            break
        found.append(message)
    return found


async def dead_letters(
    servers: AdminServers,
    group: str,
    begin: datetime | None,
    end: datetime | None,
    count_max: int,
) -> list[ReceivedMessage]:
    try:
        return await messages_between(servers, DLQ_PREFIX + group, begin, end, count_max)
    except TopicNotFound:
        return []  # The first dead letter creates the topic.


async def each_dead_letter(
    servers: AdminServers, group: str, begin: datetime | None, end: datetime | None
) -> AsyncGenerator[ReceivedMessage]:
    """All dead letters, queue by queue, without a limit."""
    try:
        route = await servers.route(DLQ_PREFIX + group)
    except TopicNotFound:
        return
    for queue in route.readable:
        async with aclosing(_each_between(servers, queue, begin, end)) as messages:
            async for message in messages:
                yield message


async def dead_letter_counts(servers: AdminServers) -> dict[str, TopicStatistics]:
    """By group, of those that have any."""
    # If it had the only dead letters, no topic of them is left.
    await servers.note_lost()
    topics = [
        topic
        for topic in await list_topics(servers, None, with_internal=True)
        if topic.startswith(DLQ_PREFIX) and servers.is_ours(topic)
    ]
    gate = asyncio.Semaphore(_TOPICS_AT_ONCE)

    async def statistics(topic: str) -> TopicStatistics:
        async with gate:
            return await topic_statistics(servers, topic)

    found = await asyncio.gather(*map(statistics, topics))
    return {each.topic.removeprefix(DLQ_PREFIX): each for each in found if each.message_count}


def revived(dead: ReceivedMessage, topic: str) -> Message:
    """A dead letter as its producer sent it, without the properties added since."""
    properties = {
        name: value for name, value in dead.properties.items() if name not in RESERVED_NAMES
    }
    return Message(topic, dead.body, dead.tags, dead.keys, properties, dead.flag)


def origin_of(dead: ReceivedMessage) -> str:
    """The topic, as brokers know it, that a dead letter was sent to. Raises BadArgument."""
    topic = origin_topic(dead.properties)
    if topic is None:
        reason = f"{dead} is not a dead letter: it does not name its original topic"
        raise BadArgument(reason, "dead_letters")
    return topic


async def _message_at(servers: AdminServers, topic: str, place: OffsetId) -> ReceivedMessage | None:
    async def view(broker: Master) -> ReceivedMessage | None:
        header = ViewMessageHeader(offset=place.physical_offset, topic=topic)
        code = RequestCode.VIEW_MESSAGE_BY_ID
        try:
            reply = await servers.brokers.ask(broker.address, code, header)
            found = received_of(reply.body, broker.broker_name, servers.config.namespace)
        except RequestRefused:
            return None
        except ProtocolError as error:
            raise Unreachable(broker.address, f"invalid response: {error}") from None
        return found if found.queue.topic == topic else None

    # Both kinds of ids look alike: an address in an id is asked only if it is a known broker.
    brokers = await _brokers_at(servers, str(place.store_address))
    return next(iter((await servers.ask_each(brokers, view)).values()), None)


async def _brokers_at(servers: AdminServers, address: str) -> list[Master]:
    """The broker at an address, if name servers list one."""
    table = (await servers.cluster_info()).broker_addr_table
    return [
        Master(name, address)
        for name, data in table.items()
        if address in data.broker_addrs.values()
    ][:1]


async def _message_by_unique_id(
    servers: AdminServers, clock: Clock, topic: str, message_id: str
) -> ReceivedMessage | None:
    """The oldest with this id: retries and dead letters keep it."""
    made_ms = parse_unique_id(message_id).made_at_ms(clock.now_ms())
    header = QueryMessageHeader(
        topic=topic,
        key=message_id,
        max_num=_PULL_COUNT,
        begin_timestamp=made_ms - _CLOCK_DIFFERENCE_MS,
        end_timestamp=_LAST_MS,
        # Not marked as a unique key: that only sets the count, and brokers do not agree on
        # whether the mark is part of what is signed.
    )
    found = await _query(servers, header)
    return next(iter(_oldest_first(each for each in found if each.message_id == message_id)), None)


async def _query(servers: AdminServers, header: QueryMessageHeader) -> list[ReceivedMessage]:
    brokers = await servers.replicas_of(header.topic)
    parts = await servers.ask_each(brokers, lambda broker: query_at(servers, header, broker))
    return [each for part in parts.values() for each in part]


async def query_at(
    servers: AdminServers, header: QueryMessageHeader, master: Master
) -> list[ReceivedMessage]:
    """What one broker finds. Brokers compare hashes of keys: compare the keys again."""
    code = RequestCode.QUERY_MESSAGE
    try:
        timeout_s = servers.config.timeout_s * _QUERY_TIMEOUT_FACTOR
        reply = await servers.brokers.ask(master.address, code, header, timeout_s=timeout_s)
        # The records themselves name their queues.
        anywhere = QueueRef(header.topic, master.broker_name, 0)
        found = received_messages(reply.body, anywhere, servers.config.namespace)
        for each in found:
            each.queue = anywhere._replace(queue_id=each.record.queue_id)
    except RequestRefused as refused:
        if refused.code in _NOT_FOUND:
            return []
        raise
    except ProtocolError as error:
        raise Unreachable(master.broker_name, f"invalid response: {error}") from None
    # Brokers index topic and key together, as a hash.
    return [each for each in found if each.record.topic == header.topic]


async def _between(
    servers: AdminServers,
    queue: QueueRef,
    begin: datetime | None,
    end: datetime | None,
    count_max: int,
) -> list[ReceivedMessage]:
    found: list[ReceivedMessage] = []
    async with aclosing(_each_between(servers, queue, begin, end)) as messages:
        async for message in messages:
            if len(found) == count_max:
                break
            found.append(message)
    return found


async def _each_between(
    servers: AdminServers, queue: QueueRef, begin: datetime | None, end: datetime | None
) -> AsyncGenerator[ReceivedMessage]:
    begin_ms = _FIRST_MS if begin is None else timestamp_ms(begin, "begin")
    end_ms = _LAST_MS if end is None else timestamp_ms(end, "end")
    if begin is None:
        start = await servers.brokers.min_offset(queue)
    else:
        # Of several messages stored in one millisecond 4.9 finds any; those before it, in order.
        start = await servers.brokers.offset_at(queue, begin_ms - 1)
    async with aclosing(_messages_from(servers, queue, start)) as messages:
        async for message in messages:
            if message.record.store_timestamp >= end_ms:
                break
            if message.record.store_timestamp >= begin_ms:
                yield message


async def _messages_from(
    servers: AdminServers, queue: QueueRef, offset: int
) -> AsyncGenerator[ReceivedMessage]:
    """All messages of a queue up to its current end."""
    everything = subscription_of(queue.topic)
    terms = PullTerms(everything, _PULL_COUNT, suspend_s=0, sends_subscription=True)
    while True:
        pulled = await servers.puller.pull(PullOrder(queue, terms, offset))
        for message in pulled.messages:
            yield message
        if pulled.status is PullStatus.NOTHING_NEW or pulled.next_offset <= offset:
            return
        offset = pulled.next_offset


def _oldest_first(messages: Iterable[ReceivedMessage]) -> list[ReceivedMessage]:
    return sorted(
        messages, key=lambda each: (each.record.store_timestamp, each.queue, each.queue_offset)
    )


_COUNT_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """What a client did with a message; what it does not report is None."""

    # "sent", "delivered", "consumed", "transaction ended", or "dead letter".
    event: str
    # By the clock of the client; old ones do not report when a listener returned.
    time: datetime | None
    group: str | None
    # How the send, the consumption or the transaction ended.
    outcome: str | None
    duration: timedelta | None = None
    # Where it is stored.
    store_host: str | None = None
    # How often it was delivered before.
    retry_count: int | None = None
    # The address of the client that reports it, as its broker saw it.
    client: str | None = None


async def trace_of(servers: AdminServers, message_id: str, topic: str | None) -> list[TraceEvent]:
    """Oldest first; what a listener returned comes after what it was called with."""
    wire_topic = TRACE_TOPIC if topic is None else servers.wire_name(topic)
    try:
        found = await messages_by_key(servers, wire_topic, message_id, None, None, _COUNT_MAX)
    except TopicNotFound:
        return []  # Brokers create it if tracing is enabled.
    records = [
        (record, str(message.record.born_address))
        for message in found
        for record in parse_traces(message.body.decode(errors="replace"))
        if record.message_id == message_id
    ]
    records.sort(key=lambda each: _order(each[0]))
    events = [replace(_event(servers, record), client=client) for record, client in records]
    # No client traces what its broker does with a message that failed too often.
    groups = {each.group for each in events if each.event == "delivered" and each.group}
    dead = [await _step_to_dlq(servers, group, message_id) for group in sorted(groups)]
    return events + [each for each in dead if each is not None]


async def _step_to_dlq(servers: AdminServers, group: str, message_id: str) -> TraceEvent | None:
    topic = DLQ_PREFIX + servers.wire_name(group)
    header = QueryMessageHeader(
        topic=topic,
        key=message_id,
        max_num=_PULL_COUNT,
        begin_timestamp=_FIRST_MS,
        end_timestamp=_LAST_MS,
    )
    try:
        found = await _query(servers, header)
    except TopicNotFound:
        return None  # The first dead letter creates it.
    dead = next((each for each in found if each.message_id == message_id), None)
    if dead is None:
        return None
    reason = None if dead.dlq_reason is None else dead.dlq_reason.reason
    return TraceEvent(
        "dead letter",
        dead.stored,
        group,
        reason,
        store_host=str(dead.record.store_address),
        retry_count=dead.retry_count,
    )


def _order(record: TraceRecord) -> tuple[int, bool]:
    return record.timestamp, isinstance(record, SubAfterRecord)


def _event(servers: AdminServers, record: TraceRecord) -> TraceEvent:
    time = moment_of(record.timestamp)
    group = None if record.group is None else servers.user_name(record.group)
    match record:
        case PubRecord():
            kind = record.kind.name.lower()
            outcome = f"stored, {kind}" if record.is_success else "failed"
            duration = timedelta(milliseconds=record.duration_ms)
            return TraceEvent("sent", time, group, outcome, duration, record.store_host)
        case SubBeforeRecord():
            return TraceEvent("delivered", time, group, None, retry_count=record.retry_count)
        case SubAfterRecord():
            outcome = record.outcome.name.lower()
            duration = timedelta(milliseconds=record.duration_ms)
            return TraceEvent("consumed", time, group, outcome, duration)
        case EndTransactionRecord():
            outcome = record.state + (", after a check" if record.is_answer else "")
            return TraceEvent(
                "transaction ended", time, group, outcome, store_host=record.store_host
            )
