"""Every request times every kind of account: who may do what, as a table that stands by itself.

It is written down apart from the routes, so that one that forgets what it needs is found out.
"""

from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.handlers import ROUTES
from roquet.net.router import Reply, Request, RequestRoute
from roquet.protocol.bodies.body import MessageQueue, write_body
from roquet.protocol.bodies.clients import (
    ConsumerData,
    Heartbeat,
    SubscriptionCheck,
    SubscriptionData,
)
from roquet.protocol.bodies.groups import QueueLockRequest
from roquet.protocol.bodies.pop import AssignmentQuery, BatchAck, BatchAckRequest
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import RequestCode as Code, ResponseCode
from roquet.protocol.fields import Header
from roquet.protocol.headers.messages import (
    EndTransactionHeader,
    SendBackHeader,
    SendMessageHeader,
    ViewMessageHeader,
)
from roquet.protocol.names import HALF_TOPIC, TRACE_TOPIC, reply_topic, retry_topic
from tests.support.accounts import (
    GROUP,
    KNOWN,
    PUBLISHER,
    ROLES,
    SUBSCRIBER,
    TOPIC,
    Signer,
    accounts_file,
)
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.filled_headers import filled_header

OPERATORS = {"admin"}
COPIES = {"replica", *OPERATORS}
READERS = {"subscriber", *COPIES}
WRITERS = {"publisher", *OPERATORS}
USERS = READERS | WRITERS
ALL_KNOWN = {"known", *USERS}

TABLE = {
    Code.SEND_MESSAGE: WRITERS,
    Code.SEND_MESSAGE_V2: WRITERS,
    Code.SEND_BATCH_MESSAGE: WRITERS,
    Code.RECALL_MESSAGE: WRITERS,
    Code.SEND_REPLY_MESSAGE: WRITERS,
    Code.SEND_REPLY_MESSAGE_V2: WRITERS,
    Code.END_TRANSACTION: WRITERS,
    Code.PULL_MESSAGE: READERS,
    Code.LITE_PULL_MESSAGE: READERS,
    Code.POP_MESSAGE: READERS,
    Code.PEEK_MESSAGE: READERS,
    Code.NOTIFICATION: READERS,
    Code.POLLING_INFO: READERS,
    Code.ACK_MESSAGE: READERS,
    Code.BATCH_ACK_MESSAGE: READERS,
    Code.CHANGE_MESSAGE_INVISIBLETIME: READERS,
    Code.QUERY_ASSIGNMENT: READERS,
    Code.QUERY_MESSAGE: READERS,
    Code.VIEW_MESSAGE_BY_ID: READERS,
    Code.QUERY_CONSUME_QUEUE: READERS,
    Code.CONSUMER_SEND_MSG_BACK: READERS,
    Code.HEART_BEAT: READERS,
    Code.UNREGISTER_CLIENT: READERS,
    Code.CHECK_CLIENT_CONFIG: READERS,
    Code.GET_CONSUMER_LIST_BY_GROUP: READERS,
    Code.LOCK_BATCH_MQ: READERS,
    Code.UNLOCK_BATCH_MQ: READERS,
    Code.QUERY_CONSUMER_OFFSET: READERS,
    Code.UPDATE_CONSUMER_OFFSET: READERS,
    Code.INVOKE_BROKER_TO_RESET_OFFSET: READERS,
    Code.QUERY_CORRECTION_OFFSET: READERS,
    Code.GET_CONSUME_STATS: READERS,
    Code.GET_CONSUMER_CONNECTION_LIST: READERS,
    Code.GET_CONSUMER_RUNNING_INFO: READERS,
    Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: READERS,
    Code.QUERY_CONSUME_TIME_SPAN: READERS,
    Code.QUERY_TOPIC_CONSUME_BY_WHO: READERS,
    Code.QUERY_TOPICS_BY_CONSUMER: READERS,
    Code.QUERY_SUBSCRIPTION_BY_CONSUMER: READERS,
    Code.GET_SUBSCRIPTIONGROUP_CONFIG: READERS,
    Code.GET_MAX_OFFSET: USERS,
    Code.GET_MIN_OFFSET: USERS,
    Code.SEARCH_OFFSET_BY_TIMESTAMP: USERS,
    Code.GET_EARLIEST_MSG_STORETIME: USERS,
    Code.GET_TOPIC_STATS_INFO: USERS,
    Code.GET_TOPIC_CONFIG: USERS,
    Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: ALL_KNOWN,
    Code.GET_ALL_TOPIC_CONFIG: COPIES,
    Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: COPIES,
    Code.GET_ALL_CONSUMER_OFFSET: COPIES,
    Code.GET_ALL_DELAY_OFFSET: COPIES,
    Code.GET_WAITING_MESSAGES: COPIES,
    Code.GET_ALL_MESSAGE_REQUEST_MODE: COPIES,
    Code.SET_MESSAGE_REQUEST_MODE: OPERATORS,
    Code.UPDATE_AND_CREATE_TOPIC: OPERATORS,
    Code.UPDATE_AND_CREATE_TOPIC_LIST: OPERATORS,
    Code.UPDATE_AND_CREATE_STATIC_TOPIC: OPERATORS,
    Code.DELETE_TOPIC_IN_BROKER: OPERATORS,
    Code.CLEAN_EXPIRED_CONSUMEQUEUE: OPERATORS,
    Code.CLEAN_UNUSED_TOPIC: OPERATORS,
    Code.DELETE_EXPIRED_COMMITLOG: OPERATORS,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: OPERATORS,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: OPERATORS,
    Code.DELETE_SUBSCRIPTIONGROUP: OPERATORS,
    Code.CLONE_GROUP_OFFSET: OPERATORS,
    Code.RESUME_CHECK_HALF_MESSAGE: OPERATORS,
    Code.CONSUME_MESSAGE_DIRECTLY: OPERATORS,
    Code.GET_PRODUCER_CONNECTION_LIST: OPERATORS,
    Code.GET_ALL_PRODUCER_INFO: OPERATORS,
    Code.GET_BROKER_CONSUME_STATS: OPERATORS,
    Code.GET_BROKER_CONFIG: OPERATORS,
    Code.GET_BROKER_HA_STATUS: OPERATORS,
    Code.UPDATE_BROKER_CONFIG: OPERATORS,
    Code.GET_BROKER_RUNTIME_INFO: OPERATORS,
    Code.VIEW_BROKER_STATS_DATA: OPERATORS,
    Code.UPDATE_AND_CREATE_ACL_CONFIG: OPERATORS,
    Code.DELETE_ACL_CONFIG: OPERATORS,
    Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: OPERATORS,
    Code.GET_BROKER_CLUSTER_ACL_INFO: OPERATORS,
    Code.GET_BROKER_CLUSTER_ACL_CONFIG: OPERATORS,
    Code.AUTH_CREATE_USER: OPERATORS,
    Code.AUTH_UPDATE_USER: OPERATORS,
    Code.AUTH_DELETE_USER: OPERATORS,
    Code.AUTH_GET_USER: OPERATORS,
    Code.AUTH_LIST_USER: OPERATORS,
    Code.AUTH_CREATE_ACL: OPERATORS,
    Code.AUTH_UPDATE_ACL: OPERATORS,
    Code.AUTH_DELETE_ACL: OPERATORS,
    Code.AUTH_GET_ACL: OPERATORS,
    Code.AUTH_LIST_ACL: OPERATORS,
    Code.PROMOTE_BROKER: OPERATORS,
    Code.DEMOTE_BROKER: OPERATORS,
}

BEAT = Heartbeat(
    client_id="c",
    consumer_data_set=[
        ConsumerData(group_name=GROUP, subscription_data_set=[SubscriptionData(topic=TOPIC)])
    ],
)
LOCK = QueueLockRequest(
    client_id="c",
    consumer_group=GROUP,
    mq_set=[MessageQueue(broker_name="broker-a", queue_id=0, topic=TOPIC)],
)
CHECK = SubscriptionCheck(group=GROUP, subscription_data=SubscriptionData(topic=TOPIC))
ACKS = BatchAckRequest(
    acks=[
        BatchAck(
            acked=b"\x01",
            consumer_group=GROUP,
            invisible_time=1,
            pop_time=1,
            queue_id=0,
            revive_queue_id=0,
            start_offset=0,
            topic=TOPIC,
        )
    ]
)
BODIES: dict[int, object] = {
    Code.HEART_BEAT: BEAT,
    Code.LOCK_BATCH_MQ: LOCK,
    Code.UNLOCK_BATCH_MQ: LOCK,
    Code.CHECK_CLIENT_CONFIG: CHECK,
    Code.BATCH_ACK_MESSAGE: ACKS,
    Code.QUERY_ASSIGNMENT: AssignmentQuery(client_id="c", consumer_group=GROUP, topic=TOPIC),
}
FIELDS: dict[str, object] = {
    "topic": TOPIC,
    "group": GROUP,
    "consumer_group": GROUP,
    "compare_group": GROUP,
    # Where the first message is.
    "offset": 0,
    "commit_log_offset": 0,
}


def header_of(header_type: type[Header]) -> Header:
    """With all that there has to be, and topic and group wherever there may be one."""
    return filled_header(header_type, FIELDS)


def answered(routes: Iterable[RequestRoute[Broker]]) -> Sequence[RequestRoute[Broker]]:
    """The same routes, with handlers that do nothing but say that they were reached."""
    return [replace(route, handler=_say_yes) for route in routes]


def _say_yes(_broker: Broker, _request: Request[Any]) -> Reply:
    return Reply()


@asynccontextmanager
async def guarded(
    directory: Path, routes: Sequence[RequestRoute[Broker]] = ROUTES
) -> AsyncIterator[BrokerBed]:
    async with broker_bed(
        directory, access_control=True, accounts_file=accounts_file(directory)
    ) as bed:
        bed.put(topic=TOPIC)
        yield BrokerBed(bed.broker, bed.clock, routes)


async def admitted(client: BedClient, route: RequestRoute[Broker]) -> Collection[str]:
    """Which roles reach the handler."""
    body = BODIES.get(route.code, b"")
    found = set()
    for role, signer in ROLES.items():
        reply = await client.ask(route.code, header_of(route.header), body, signer=signer)
        assert reply.code in (ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR)
        if reply.code == ResponseCode.SUCCESS:
            found.add(role)
        else:
            assert (reply.remark or "").startswith("org.apache.rocketmq.acl.common.AclException: ")
    return found


async def test_each_role_may_do_what_the_table_says_and_nothing_else(tmp_path: Path) -> None:
    async with guarded(tmp_path, answered(ROUTES)) as bed:
        client = bed.connect()
        found = {route.code: await admitted(client, route) for route in ROUTES}
    assert found == TABLE


async def test_a_route_that_forgets_what_it_needs_does_not_agree_with_the_table(
    tmp_path: Path,
) -> None:
    forgetful = [replace(route, needs=None) for route in ROUTES if route.needs is not None]
    assert forgetful
    async with guarded(tmp_path, answered(forgetful)) as bed:
        client = bed.connect()
        for route in forgetful:
            assert await admitted(client, route) == OPERATORS != TABLE[route.code]


async def test_a_plain_send_and_a_plain_pull_are_checked_like_all_others(tmp_path: Path) -> None:
    async with guarded(tmp_path) as bed:
        bed.broker.tables.topics.update(TopicConfig(topic_name=TOPIC))
        client = bed.connect()
        assert client.connection._fast_path is None
        header = header_of(SendMessageHeader)
        refused = await client.ask(Code.SEND_MESSAGE, header, b"x", signer=SUBSCRIBER)
        assert "No default permission for topic:orders" in (refused.remark or "")
        end = bed.broker.store.log_end
        taken = await client.ask(Code.SEND_MESSAGE, header, b"x", signer=PUBLISHER)
        assert taken.code == ResponseCode.SUCCESS
        assert bed.broker.store.log_end > end


# --- what is found elsewhere than in the header ---


async def ask(bed: BrokerBed, code: Code, header: Header, signer: Signer, body: Any = b"") -> bool:
    """Whether the handler was reached."""
    reply = await bed.connect().ask(code, header, body, signer=signer)
    return reply.code == ResponseCode.SUCCESS


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with guarded(tmp_path, answered(ROUTES)) as bed:
        yield bed


def send_to(topic: str) -> SendMessageHeader:
    header = header_of(SendMessageHeader)
    assert isinstance(header, SendMessageHeader)
    header.topic = topic
    return header


async def test_a_send_to_retries_needs_their_group_and_not_the_one_it_claims(
    bed: BrokerBed,
) -> None:
    mine, others = send_to(retry_topic(GROUP)), send_to(retry_topic("others"))
    mine.producer_group = others.producer_group = GROUP
    assert await ask(bed, Code.SEND_MESSAGE, mine, SUBSCRIBER)
    assert not await ask(bed, Code.SEND_MESSAGE, others, SUBSCRIBER)
    assert not await ask(bed, Code.SEND_MESSAGE, mine, PUBLISHER)


async def test_everybody_known_may_send_traces_and_replies(bed: BrokerBed) -> None:
    replies = reply_topic(bed.broker.config.cluster_name)
    assert await ask(bed, Code.SEND_MESSAGE, send_to(TRACE_TOPIC), KNOWN)
    assert await ask(bed, Code.SEND_REPLY_MESSAGE, send_to(replies), KNOWN)
    assert not await ask(bed, Code.SEND_MESSAGE, send_to(replies), KNOWN)
    assert not await ask(bed, Code.SEND_REPLY_MESSAGE, send_to("secrets"), KNOWN)


async def test_a_message_of_another_topic_is_neither_shown_nor_sent_back(bed: BrokerBed) -> None:
    place = bed.put(topic="secrets").physical_offset
    view = ViewMessageHeader(offset=place, topic=TOPIC)
    back = SendBackHeader(group=GROUP, offset=place, delay_level=0, origin_topic=TOPIC)
    assert not await ask(bed, Code.VIEW_MESSAGE_BY_ID, view, SUBSCRIBER)
    assert not await ask(bed, Code.CONSUMER_SEND_MSG_BACK, back, SUBSCRIBER)


async def test_a_waiting_message_belongs_where_it_will_be(bed: BrokerBed) -> None:
    def half_of(topic: str) -> int:
        return bed.put(topic=HALF_TOPIC, properties={"REAL_TOPIC": topic}).physical_offset

    def end_of(place: int) -> Header:
        header = header_of(EndTransactionHeader)
        assert isinstance(header, EndTransactionHeader)
        header.commit_log_offset = place
        return header

    mine, others = half_of(TOPIC), half_of("secrets")
    assert await ask(bed, Code.END_TRANSACTION, end_of(mine), PUBLISHER)
    assert not await ask(bed, Code.END_TRANSACTION, end_of(others), PUBLISHER)
    assert await ask(bed, Code.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=mine), SUBSCRIBER)
    assert not await ask(bed, Code.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=others), SUBSCRIBER)


async def test_a_client_that_claims_that_a_message_is_elsewhere_is_not_believed(
    bed: BrokerBed,
) -> None:
    place = bed.put(topic="secrets", properties={"REAL_TOPIC": TOPIC}).physical_offset
    assert not await ask(bed, Code.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=place), SUBSCRIBER)


async def test_one_topic_too_many_is_enough_to_refuse_a_heartbeat_or_a_lock(bed: BrokerBed) -> None:
    consumer = BEAT.consumer_data_set[0]
    beats = [
        replace(consumer, subscription_data_set=[SubscriptionData(topic="secrets")]),
        replace(consumer, group_name="others"),
    ]
    header = header_of(Header)
    for each in beats:
        beat = replace(BEAT, consumer_data_set=[consumer, each])
        assert not await ask(bed, Code.HEART_BEAT, header, SUBSCRIBER, write_body(beat))
    queue = replace(LOCK.mq_set[0], topic="secrets")
    for lock in (replace(LOCK, mq_set=[queue]), replace(LOCK, consumer_group="others")):
        assert not await ask(bed, Code.LOCK_BATCH_MQ, header, SUBSCRIBER, write_body(lock))


async def test_a_producer_that_leaves_or_stays_needs_an_account_only(bed: BrokerBed) -> None:
    beat = Heartbeat(client_id="c")
    assert await ask(bed, Code.HEART_BEAT, header_of(Header), KNOWN, beat)
