"""Reading messages: pulls (11, and 361 of 5.x), and look-ups by key, physical offset and queue."""

import asyncio
from typing import Final

from roquet.access.needs import reading, sub_topic
from roquet.broker.broker import Broker
from roquet.broker.errors import UnknownTopic
from roquet.broker.handlers.answers import invalid
from roquet.broker.handlers.needs import VIEWING
from roquet.broker.membership import group_settings
from roquet.broker.messages.appending import refusal, stored_record
from roquet.broker.messages.pulls import answer_pull
from roquet.broker.messages.subscriptions import limits_of_pull
from roquet.net.errors import Refused
from roquet.net.router import Answer, Deferred, Reply, Request, on
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.topics import ConsumeQueueEntry, ConsumeQueueView
from roquet.protocol.codes import Permission, RequestCode, ResponseCode
from roquet.protocol.headers.messages import (
    PullMessageHeader,
    QueryMessageHeader,
    QueryMessageReplyHeader,
    ViewMessageHeader,
)
from roquet.protocol.headers.topics import QueryConsumeQueueHeader
from roquet.store.errors import StoreUnavailable
from roquet.store.message_store import MessageStore
from roquet.store.reading.queue_reading import QueueReadLimits

_READ: Final = int(Permission.READ)


def pull_message(broker: Broker, request: Request[PullMessageHeader]) -> Answer:
    broker.statistics.pulls.slow += 1
    return answer_pull(broker, request, _checked_limits(broker, request))


def _checked_limits(broker: Broker, request: Request[PullMessageHeader]) -> QueueReadLimits:
    """What the pull may bring. Raises Refused."""
    pull = request.header
    config = broker.config
    if not config.permission & _READ:
        raise Refused(ResponseCode.NO_PERMISSION, "the broker is not readable")
    group = group_settings(broker, pull.consumer_group)
    if not group.consume_enable:
        raise Refused(ResponseCode.NO_PERMISSION, f"group {pull.consumer_group!r} may not consume")
    topic = broker.tables.topics.find(pull.topic)
    if topic is None:
        raise UnknownTopic(pull.topic)
    if not topic.perm & _READ:
        raise Refused(ResponseCode.NO_PERMISSION, f"topic {pull.topic!r} is not readable")
    if not 0 <= pull.queue_id < topic.read_queue_nums:
        raise invalid(
            request.command,
            f"topic {pull.topic!r} has {topic.read_queue_nums} queues and no queue {pull.queue_id}",
        )
    members = broker.clients.consumers.find(pull.consumer_group)
    return limits_of_pull(pull, members, group, config)


UNIQUE_KEY_COUNT_MAX: Final = 32  # A unique key is that of one message, or of its retries.
ENTRY_COUNT_MAX: Final = 4096  # of one look into a queue

_BY_TAG: Final = "T"


def query_messages(broker: Broker, request: Request[QueryMessageHeader]) -> Reply | Deferred:
    """Soon after a crash keys are still being indexed: the answer comes when all are."""
    if _are_keys_filed(broker.store):
        return _found_by_key(broker, request)
    deferred = Deferred(request)

    async def answer_when_filed() -> None:
        is_filed = False
        while not is_filed:
            await asyncio.sleep(0)  # Others have their turn.
            is_filed = _are_keys_filed(broker.store)
        deferred.answer_by(lambda: _found_by_key(broker, request))

    broker.background.services.once("look up a key", answer_when_filed)
    return deferred


def _are_keys_filed(store: MessageStore) -> bool:
    """Files some more."""
    try:
        return store.file_keys()
    except StoreUnavailable:
        return True  # The look-up will say why.


def _found_by_key(broker: Broker, request: Request[QueryMessageHeader]) -> Reply:
    header = request.header
    count_max = UNIQUE_KEY_COUNT_MAX if header.is_unique_key else max(0, header.max_num)
    key = f"{_BY_TAG}#{header.key}" if header.index_type == _BY_TAG else header.key
    try:
        found = broker.store.query(
            header.topic, key, count_max, header.begin_timestamp, header.end_timestamp
        )
    except StoreUnavailable as error:
        raise refusal(error) from None
    reply_header = QueryMessageReplyHeader(
        index_last_update_timestamp=found.last_timestamp,
        index_last_update_phyoffset=found.last_physical_offset,
    )
    if not found.records:
        remark = f"no message of {header.topic!r} in that time has the key {header.key[:100]!r}"
        return Reply(ResponseCode.QUERY_NOT_FOUND, reply_header, remark=remark)
    return Reply(header=reply_header, body=b"".join(found.records))


def view_message(broker: Broker, request: Request[ViewMessageHeader]) -> Reply:
    return Reply(body=stored_record(broker.store, request.header.offset))


def query_queue(broker: Broker, request: Request[QueryConsumeQueueHeader]) -> Reply:
    header = request.header
    store = broker.store
    view = ConsumeQueueView(
        min_queue_index=store.min_offset(header.topic, header.queue_id),
        max_queue_index=store.max_offset(header.topic, header.queue_id),
    )
    if not view.max_queue_index and header.topic not in broker.tables.topics:
        raise UnknownTopic(header.topic)
    count = min(header.count, ENTRY_COUNT_MAX)
    view.queue_data = [
        ConsumeQueueEntry(
            physic_offset=entry.physical_offset,
            physic_size=entry.size,
            tags_code=entry.tags_code,
        )
        for entry in store.entries(header.topic, header.queue_id, header.index, count)
    ]
    if header.consumer_group is not None:
        group = broker.clients.consumers.find(header.consumer_group)
        view.subscription_data = group.subscriptions.get(header.topic) if group else None
        if view.subscription_data is None:
            view.filter_data = f"group {header.consumer_group!r} is not connected"
    return Reply(body=write_body(view))


ROUTES = (
    on(
        RequestCode.PULL_MESSAGE,
        PullMessageHeader,
        pull_message,
        needs=reading("topic", "consumer_group"),
    ),
    on(
        RequestCode.LITE_PULL_MESSAGE,
        PullMessageHeader,
        pull_message,
        needs=reading("topic", "consumer_group"),
    ),
    on(
        RequestCode.QUERY_MESSAGE,
        QueryMessageHeader,
        query_messages,
        needs=sub_topic("topic"),
    ),
    on(RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader, view_message, needs=VIEWING),
    on(
        RequestCode.QUERY_CONSUME_QUEUE,
        QueryConsumeQueueHeader,
        query_queue,
        needs=sub_topic("topic"),
    ),
)
