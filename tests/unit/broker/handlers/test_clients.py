"""Heartbeats, what they set going, and queue locks."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from roquet.broker.handlers import clients
from roquet.broker.settings.config import BrokerRole
from roquet.broker.tables.queue_locks import LOCK_TIME_S
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.server import serve_names
from roquet.protocol.bodies.body import MessageQueue, read_body
from roquet.protocol.bodies.clients import (
    ConsumerData,
    Heartbeat,
    SubscriptionCheck,
    SubscriptionData,
)
from roquet.protocol.bodies.groups import ConsumerIds, GroupConfig, LockedQueues, QueueLockRequest
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.catalog import decode_request
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import AddressedHeader, field_texts
from roquet.protocol.headers.groups import (
    ConsumerListHeader,
    ConsumersChangedHeader,
    UnregisterClientHeader,
)
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.fake_clock import FakeClock
from tests.support.golden_frames import golden_frames
from tests.support.quick_disk import QuickDisk

READS = {"g": ["TopicA"]}


async def consumer_ids(client: BedClient, group: str = "g") -> list[str]:
    header = ConsumerListHeader(consumer_group=group)
    reply = await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
    if reply.code == ResponseCode.SYSTEM_ERROR:
        return []
    return read_body(ConsumerIds, reply.body).consumer_id_list


async def notified_groups(client: BedClient) -> list[str]:
    """The groups of which the client was notified that they have changed."""
    groups = []
    for request in await client.all_asked():
        assert request.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
        assert request.is_oneway
        header = decode_request(request).header
        assert isinstance(header, ConsumersChangedHeader)
        groups.append(header.consumer_group)
    return groups


async def test_a_heartbeat_makes_members_until_the_socket_closes(bed: BrokerBed) -> None:
    first, second = bed.connect(), bed.connect()
    await first.beat("c1", reads=READS, sends=["p"])
    await second.beat("c2", reads=READS)
    assert await consumer_ids(first) == ["c1", "c2"]
    first.leave()
    assert await consumer_ids(second) == ["c2"]
    assert bed.broker.clients.producers.groups() == []


async def test_all_members_are_notified_at_once_of_those_that_join_and_leave(
    bed: BrokerBed,
) -> None:
    first, second = bed.connect(), bed.connect()
    await first.beat("c1", reads=READS)
    assert await notified_groups(first) == ["g"]
    await second.beat("c2", reads=READS)
    assert await notified_groups(first) == ["g"]
    assert await notified_groups(second) == ["g"]
    await second.beat("c2", reads=READS)
    assert await notified_groups(first) == []
    second.leave()
    assert await notified_groups(first) == ["g"]


async def test_a_consumer_that_unregisters_is_gone_and_the_others_hear_of_it(
    bed: BrokerBed,
) -> None:
    first, second = bed.connect(), bed.connect()
    await first.beat("c1", reads=READS, sends=["p"])
    await second.beat("c2", reads=READS)
    await second.all_asked()
    header = UnregisterClientHeader(client_id="c1", producer_group="p", consumer_group="g")
    reply = await first.ask(RequestCode.UNREGISTER_CLIENT, header)
    assert reply.code == ResponseCode.SUCCESS
    assert await notified_groups(second) == ["g"]
    assert await consumer_ids(second) == ["c2"]
    assert bed.broker.clients.producers.groups() == []


async def test_a_connection_that_is_closing_hears_nothing_any_more(bed: BrokerBed) -> None:
    first, second = bed.connect(), bed.connect()
    await first.beat("c1", reads=READS)
    await first.all_asked()
    first.connection.close("test")
    await second.beat("c2", reads=READS)
    assert await notified_groups(first) == []


@pytest.mark.parametrize("silenced_by", ["broker", "group"])
async def test_no_member_is_notified_where_that_is_switched_off(
    tmp_path: Path, silenced_by: str
) -> None:
    async with broker_bed(tmp_path, notify_consumers=silenced_by != "broker") as bed:
        is_told = silenced_by != "group"
        bed.broker.tables.groups.update(
            GroupConfig(group_name="g", notify_consumer_ids_changed_enable=is_told)
        )
        client = bed.connect()
        await client.beat("c1", reads=READS)
        assert await notified_groups(client) == []


async def test_a_new_group_gets_its_settings_and_the_topic_of_its_retries(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.broker.tables.groups.update(GroupConfig(group_name="wide", retry_queue_nums=3))
    bed.clear_pending()
    assert bed.unsaved_files == []
    await client.beat("c1", reads={"g": ["TopicA"], "wide": []})
    assert bed.unsaved_files == ["topics.json", "subscriptionGroup.json"]
    assert bed.broker.tables.groups.find("g") == GroupConfig(group_name="g")
    for group, queue_count in (("g", 1), ("wide", 3)):
        topic = bed.broker.tables.topics.find(f"%RETRY%{group}")
        assert topic is not None
        assert (topic.read_queue_nums, topic.write_queue_nums) == (queue_count, queue_count)


async def test_a_consumer_that_has_its_answer_finds_the_topic_of_its_retries(
    tmp_path: Path,
) -> None:
    config = NameServerConfig(port=0, kv_config_path=tmp_path / "kv.json")
    async with serve_names(config, FakeClock(), QuickDisk()) as names:
        address = f"127.0.0.1:{names.config.port}"
        async with broker_bed(tmp_path / "broker", name_servers=(address,)) as bed:
            # Clients may say it twice without waiting, and none of the answers comes too early.
            async def is_found_after_a_beat() -> bool:
                await bed.connect().beat("c1", reads=READS)
                return names.routes.route("%RETRY%g") is not None

            assert all(await asyncio.gather(is_found_after_a_beat(), is_found_after_a_beat()))


async def test_a_name_server_that_is_silent_does_not_keep_consumers_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clients, "_TELL_TIMEOUT_S", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        async with broker_bed(tmp_path, name_servers=(address,)) as bed:
            await bed.connect().beat("c1", reads=READS)
            assert bed.wants_to_register


@pytest.mark.parametrize(
    "settings", [{"create_groups": False}, {"role": BrokerRole.SLAVE, "broker_id": 1}]
)
async def test_where_no_group_may_be_made_its_consumers_are_members_all_the_same(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    async with broker_bed(tmp_path, **settings) as bed:
        client = bed.connect()
        await client.beat("c1", reads=READS)
        assert await consumer_ids(client) == ["c1"]
        assert "g" not in bed.broker.tables.groups
        assert "%RETRY%g" not in bed.broker.tables.topics


async def test_a_heartbeat_for_a_group_that_cannot_be_is_refused(client: BedClient) -> None:
    beat = Heartbeat(client_id="c1", consumer_data_set=[ConsumerData(group_name="../x")])
    reply = await client.ask(RequestCode.HEART_BEAT, AddressedHeader(), beat)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "'../x' is not a name" in (reply.remark or "")


async def test_a_heartbeat_without_its_subscriptions_is_asked_to_bring_them(
    bed: BrokerBed, client: BedClient
) -> None:
    await client.beat("c1", reads=READS)
    beat = Heartbeat(
        client_id="c1",
        consumer_data_set=[ConsumerData(group_name="g")],
        heartbeat_fingerprint=7,
        without_sub=True,
    )
    reply = await client.ask(RequestCode.HEART_BEAT, AddressedHeader(), beat)
    assert field_texts(reply.fields) == {
        "IS_SUB_CHANGE": "true",
        "IS_SUPPORT_HEART_BEAT_V2": "false",
    }
    group = bed.broker.clients.consumers.find("g")
    assert group is not None
    assert list(group.subscriptions) == ["TopicA"]


async def test_heartbeats_of_real_clients_are_taken(bed: BrokerBed) -> None:
    frames = [
        frame
        for frame in golden_frames()
        if frame.request_code == RequestCode.HEART_BEAT and frame.kind == "request"
    ]
    assert len(frames) == 38
    for frame in frames:
        command = frame.command
        client = bed.connect()
        reply = await client.ask(
            RequestCode.HEART_BEAT, None, command.body, version=command.version
        )
        assert reply.code == ResponseCode.SUCCESS, frame.place
        beat = read_body(Heartbeat, command.body)
        for consumer in beat.consumer_data_set:
            assert beat.client_id in await consumer_ids(client, consumer.group_name)
        for producer in beat.producer_data_set:
            assert client.connection in bed.broker.clients.producers.members(producer.group_name)


async def test_a_group_without_members_has_no_list(client: BedClient) -> None:
    header = ConsumerListHeader(consumer_group="nobody")
    reply = await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
    assert reply.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("a > 5", ResponseCode.SUCCESS),
        ("a > ", ResponseCode.SUBSCRIPTION_PARSE_FAILED),
    ],
)
async def test_a_consumer_may_start_when_its_filter_compiles(
    tmp_path: Path, expression: str, code: ResponseCode
) -> None:
    async with broker_bed(tmp_path, sql_filters=True) as bed:
        subscription = SubscriptionData(
            topic="TopicA", sub_string=expression, expression_type="SQL92"
        )
        check = SubscriptionCheck(subscription_data=subscription)
        reply = await bed.connect().ask(RequestCode.CHECK_CLIENT_CONFIG, None, check)
        assert reply.code == code


def queue(queue_id: int) -> MessageQueue:
    return MessageQueue(broker_name="broker-a", queue_id=queue_id, topic="TopicA")


async def lock(client: BedClient, client_id: str, *queue_ids: int) -> list[int]:
    queues = [queue(each) for each in queue_ids]
    body = QueueLockRequest(client_id=client_id, consumer_group="g", mq_set=queues)
    reply = await client.ask(RequestCode.LOCK_BATCH_MQ, AddressedHeader(), body)
    locked = read_body(LockedQueues, reply.body).queues
    assert all(each in queues for each in locked)
    return [each.queue_id for each in locked]


async def test_a_queue_is_locked_by_one_consumer_until_it_gives_it_back(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.broker.tables.topics.update(TopicConfig(topic_name="TopicA", read_queue_nums=3))
    assert await lock(client, "c1", 0, 1) == [0, 1]
    assert await lock(client, "c2", 0, 2) == [2]
    body = QueueLockRequest(client_id="c1", consumer_group="g", mq_set=[queue(0)])
    reply = await client.ask(RequestCode.UNLOCK_BATCH_MQ, AddressedHeader(), body)
    assert reply.code == ResponseCode.SUCCESS
    assert await lock(client, "c2", 0, 1) == [0]


async def test_a_lock_that_is_not_renewed_ends(bed: BrokerBed, client: BedClient) -> None:
    await lock(client, "c1", 0)
    bed.clock.advance(LOCK_TIME_S + 1)
    assert await lock(client, "c2", 0) == [0]


async def test_a_queue_that_is_not_there_is_not_locked(bed: BrokerBed, client: BedClient) -> None:
    assert await lock(client, "c1", 0, 2, -1) == [0]
    bed.broker.tables.topics.delete("TopicA")
    assert await lock(client, "c1", 1) == []
    assert len(bed.broker.clients.locks) == 1


async def test_a_lock_in_the_words_of_an_earlier_one_is_decided_again(
    bed: BrokerBed, client: BedClient
) -> None:
    assert await lock(client, "c1", 0, 1) == [0, 1]
    one_queue = TopicConfig(topic_name="TopicA", read_queue_nums=1, write_queue_nums=1)
    bed.broker.tables.topics.update(one_queue)
    assert await lock(client, "c1", 0, 1) == [0]
    bed.clock.advance(LOCK_TIME_S + 1)
    assert await lock(client, "c2", 0) == [0]
    assert await lock(client, "c1", 0, 1) == []


@pytest.mark.parametrize(
    ("client_id", "group"), [("c" * 513, "g"), ("c", "no/name"), ("c", "g" * 128)]
)
async def test_locks_of_names_that_cannot_be_are_refused(
    bed: BrokerBed, client: BedClient, client_id: str, group: str
) -> None:
    body = QueueLockRequest(client_id=client_id, consumer_group=group, mq_set=[queue(0)])
    reply = await client.ask(RequestCode.LOCK_BATCH_MQ, AddressedHeader(), body)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert len(bed.broker.clients.locks) == 0


async def test_locks_have_a_bound_and_say_its_name(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, lock_count_max=2) as bed:
        bed.broker.tables.topics.update(TopicConfig(topic_name="TopicA"))
        client = bed.connect()
        assert await lock(client, "c1", 0, 1) == [0, 1]
        body = QueueLockRequest(client_id="c1", consumer_group="g", mq_set=[queue(2)])
        reply = await client.ask(RequestCode.LOCK_BATCH_MQ, AddressedHeader(), body)
        assert reply.code == ResponseCode.SYSTEM_BUSY
        assert "maxQueueLocks" in (reply.remark or "")
        assert await lock(client, "c1", 0, 1) == [0, 1]


async def test_a_client_with_a_name_without_end_is_refused(client: BedClient) -> None:
    beat = Heartbeat(client_id="c" * 513, consumer_data_set=[], producer_data_set=[])
    reply = await client.ask(RequestCode.HEART_BEAT, AddressedHeader(), beat)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "at most 512" in (reply.remark or "")


async def test_a_lock_request_without_its_body_is_refused(client: BedClient) -> None:
    reply = await client.ask(RequestCode.LOCK_BATCH_MQ, AddressedHeader())
    assert reply.code == ResponseCode.SYSTEM_ERROR
