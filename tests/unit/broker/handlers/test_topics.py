"""Operators make, change, list and delete topics."""

from pathlib import Path

import pytest

from roquet.broker.tables.topics import QUEUE_COUNT_MAX
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.server import serve_names
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.topics import (
    TopicConfig,
    TopicConfigList,
    TopicConfigTable,
    TopicList,
)
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import AddressedHeader, field_texts
from roquet.protocol.headers.topics import (
    AllTopicConfigsHeader,
    CreateTopicHeader,
    DeleteTopicHeader,
    GetTopicConfigHeader,
)
from tests.support.broker_bed import VERSION_4_9_7, VERSION_5_5_0, BedClient, BrokerBed, broker_bed
from tests.support.fake_clock import FakeClock
from tests.support.faulty_disk import FaultyDisk
from tests.support.golden_frames import golden_frames
from tests.support.inner_parts import log_of
from tests.support.quick_disk import QuickDisk


async def create(
    client: BedClient,
    topic: str = "new",
    *,
    queue_count: int = 3,
    attributes: str | None = None,
    version: int = VERSION_4_9_7,
) -> Command:
    header = CreateTopicHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queue_count,
        write_queue_nums=2,
        perm=4,
        topic_filter_type="MULTI_TAG",
        topic_sys_flag=1,
        order=True,
        attributes=attributes,
    )
    return await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header, version=version)


def saved_topics(tmp_path: Path) -> dict[str, TopicConfig]:
    content = (tmp_path / "config" / "topics.json").read_bytes()
    return read_body(TopicConfigTable, content).topic_config_table


async def test_a_topic_is_created_as_requested_and_on_disk_before_the_reply(
    bed: BrokerBed, client: BedClient, tmp_path: Path
) -> None:
    reply = await create(client)
    assert reply.code == ResponseCode.SUCCESS
    expected = TopicConfig(
        topic_name="new",
        read_queue_nums=3,
        write_queue_nums=2,
        perm=4,
        topic_filter_type="MULTI_TAG",
        topic_sys_flag=1,
        order=True,
    )
    assert bed.broker.tables.topics.find("new") == expected
    assert saved_topics(tmp_path)["new"] == expected


async def test_a_topic_can_be_found_by_route_when_its_maker_hears_of_it(tmp_path: Path) -> None:
    config = NameServerConfig(port=0, kv_config_path=tmp_path / "kvConfig.json")
    async with serve_names(config, FakeClock(), QuickDisk()) as names:
        address = f"127.0.0.1:{names.config.port}"
        async with broker_bed(tmp_path / "broker", name_servers=(address,)) as bed:
            await create(bed.connect())
            assert names.routes.route("new") is not None


async def test_attributes_of_a_topic_are_changed_not_replaced(
    bed: BrokerBed, client: BedClient
) -> None:
    await create(client, attributes="+a=1,+b=2")
    await create(client, attributes="-a,+c=3")
    topic = bed.broker.tables.topics.find("new")
    assert topic is not None
    assert topic.attributes == {"b": "2", "c": "3"}


@pytest.mark.parametrize(
    ("topic", "queue_count", "attributes"),
    [
        ("a/b", 3, None),
        ("", 3, None),
        ("SELF_TEST_TOPIC", 3, None),
        ("DefaultCluster", 3, None),
        ("rmq_sys_any", 3, None),
        ("new", -1, None),
        ("new", QUEUE_COUNT_MAX + 1, None),
        ("new", 3, "a=1"),
        ("new", 3, "-a"),
    ],
)
async def test_a_topic_that_cannot_be_is_refused(
    bed: BrokerBed, client: BedClient, topic: str, queue_count: int, attributes: str | None
) -> None:
    version = bed.broker.tables.topics.version
    reply = await create(client, topic, queue_count=queue_count, attributes=attributes)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert bed.broker.tables.topics.version == version


@pytest.mark.parametrize("topic", ["a/b", "SELF_TEST_TOPIC"])
async def test_5_x_tools_learn_that_their_parameter_is_wrong(client: BedClient, topic: str) -> None:
    reply = await create(client, topic, version=VERSION_5_5_0)
    assert reply.code == ResponseCode.INVALID_PARAMETER


async def test_a_client_that_makes_a_topic_learns_that_it_is_not_saved(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    async with broker_bed(tmp_path, disk=disk) as bed:
        client = bed.connect()
        disk.is_full = True
        reply = await create(client)
        disk.is_full = False
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert "not saved" in (reply.remark or "")
        assert (await create(client)).code == ResponseCode.SUCCESS


def topic_list(*names: str) -> TopicConfigList:
    return TopicConfigList(topic_config_list=[TopicConfig(topic_name=name) for name in names])


async def test_many_topics_are_made_at_once(bed: BrokerBed, client: BedClient) -> None:
    code = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    reply = await client.ask(code, AddressedHeader(), topic_list("new1", "new2"))
    assert reply.code == ResponseCode.SUCCESS
    assert "new1" in bed.broker.tables.topics
    assert "new2" in bed.broker.tables.topics


async def test_of_many_topics_none_is_made_when_one_cannot_be_called_that(
    bed: BrokerBed, client: BedClient
) -> None:
    code = RequestCode.UPDATE_AND_CREATE_TOPIC_LIST
    reply = await client.ask(code, AddressedHeader(), topic_list("new1", "a/b"))
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "new1" not in bed.broker.tables.topics


async def test_of_many_topics_those_before_a_bad_one_are_saved_and_registered(
    bed: BrokerBed, client: BedClient
) -> None:
    body = topic_list("new1", "new2")
    body.topic_config_list[1].read_queue_nums = -1
    reply = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, AddressedHeader(), body)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "new1" in bed.broker.tables.topics
    assert bed.unsaved_files == ["topics.json"]
    assert bed.wants_to_register


async def delete(client: BedClient, topic: str = "TopicA") -> ResponseCode:
    header = DeleteTopicHeader(topic=topic)
    return ResponseCode((await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, header)).code)


async def test_a_deleted_topic_leaves_nothing_that_a_new_one_could_find(
    bed: BrokerBed, client: BedClient, tmp_path: Path
) -> None:
    bed.put()
    bed.broker.tables.offsets.commit("g", "TopicA", 0, 1)
    assert await delete(client) == ResponseCode.SUCCESS
    assert "TopicA" not in bed.broker.tables.topics
    assert bed.broker.tables.offsets.topics_of("g") == []
    assert bed.broker.store.max_offset("TopicA", 0) == 0
    assert bed.has_saved_offsets
    assert "TopicA" not in saved_topics(tmp_path)
    assert bed.put().queue_offset == 0


async def test_deleting_what_is_not_there_is_no_mistake(client: BedClient) -> None:
    assert await delete(client, "no") == ResponseCode.SUCCESS


@pytest.mark.parametrize("topic", ["a/b", "SELF_TEST_TOPIC", "broker-a"])
async def test_what_is_no_topic_of_users_cannot_be_deleted(
    bed: BrokerBed, client: BedClient, topic: str
) -> None:
    version = bed.broker.tables.topics.version
    assert await delete(client, topic) == ResponseCode.SYSTEM_ERROR
    assert bed.broker.tables.topics.version == version


async def test_a_topic_stays_as_it_is_when_its_end_cannot_be_saved(tmp_path: Path) -> None:
    disk = FaultyDisk(tmp_path)
    async with broker_bed(tmp_path, disk=disk) as bed:
        client = bed.connect()
        await create(client)
        bed.put(topic="new")
        disk.is_full = True
        code = await delete(client, "new")
        disk.is_full = False
        assert code == ResponseCode.SYSTEM_ERROR
        assert "new" in bed.broker.tables.topics
        assert bed.broker.store.max_offset("new", 0) == 1


async def test_the_settings_of_one_topic_are_shown(bed: BrokerBed, client: BedClient) -> None:
    header = GetTopicConfigHeader(topic="TopicA")
    reply = await client.ask(RequestCode.GET_TOPIC_CONFIG, header)
    assert read_body(TopicConfig, reply.body) == bed.broker.tables.topics.find("TopicA")
    header = GetTopicConfigHeader(topic="no")
    reply = await client.ask(RequestCode.GET_TOPIC_CONFIG, header)
    assert reply.code == ResponseCode.TOPIC_NOT_EXIST


async def test_all_topics_are_shown_at_once(bed: BrokerBed, client: BedClient) -> None:
    reply = await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    table = read_body(TopicConfigTable, reply.body)
    assert table == bed.broker.tables.topics.snapshot()
    assert field_texts(reply.fields) == {"totalTopicNum": str(len(table.topic_config_table))}


async def test_all_topics_are_shown_page_by_page(bed: BrokerBed, client: BedClient) -> None:
    shown: dict[str, TopicConfig] = {}
    version = ""
    all_topics = bed.broker.tables.topics.snapshot().topic_config_table
    while len(shown) < len(all_topics):
        header = AllTopicConfigsHeader(topic_seq=len(shown), max_topic_num=3, data_version=version)
        reply = await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG, header)
        table = read_body(TopicConfigTable, reply.body)
        assert 0 < len(table.topic_config_table) <= 3
        assert not shown.keys() & table.topic_config_table.keys()
        assert field_texts(reply.fields) == {"totalTopicNum": str(len(all_topics))}
        shown |= table.topic_config_table
        version = write_body(table.data_version).decode()
    assert shown == all_topics


async def test_the_system_topics_are_those_of_4_9_7(client: BedClient) -> None:
    reply = await client.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    (golden, *_) = [
        frame.command.body
        for frame in golden_frames()
        if frame.scenario == "raw_s49_c49"
        and frame.kind == "response"
        and frame.request_code == 305
    ]
    shown = read_body(TopicList, reply.body).topic_list
    assert shown == sorted(read_body(TopicList, golden).topic_list)


async def test_queues_without_a_topic_are_cleaned_up(bed: BrokerBed, client: BedClient) -> None:
    for topic in ("TopicA", "gone", "RMQ_SYS_TRANS_OP_HALF_TOPIC"):
        bed.put(topic=topic)
    reply = await client.ask(RequestCode.CLEAN_UNUSED_TOPIC)
    assert reply.code == ResponseCode.SUCCESS
    assert bed.broker.store.queues().keys() == {"TopicA", "RMQ_SYS_TRANS_OP_HALF_TOPIC"}


async def test_queues_whose_messages_have_expired_are_cleaned_up(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.put(topic="TopicA")
    for _ in range(3):
        bed.put(bytes(2000), topic="TopicB")
    for file in log_of(bed.broker.store).forget(1):
        file.close()
    reply = await client.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)
    assert reply.code == ResponseCode.SUCCESS
    assert bed.broker.store.queues() == {"TopicB": [0]}


@pytest.mark.parametrize(
    ("attribute", "meaning"),
    [
        ("queue.type=BatchCQ", "queues of another kind"),
        ("cleanup.policy=COMPACTION", "only the last message of each key is kept"),
    ],
)
async def test_a_topic_of_another_storage_is_refused(
    bed: BrokerBed, client: BedClient, attribute: str, meaning: str
) -> None:
    reply = await create(client, attributes=f"+{attribute}", version=VERSION_5_5_0)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert f"{attribute} ({meaning}) is not supported" in (reply.remark or "")
    assert "new" not in bed.broker.tables.topics


async def test_the_kind_of_queues_that_there_is_may_be_asked_for(
    bed: BrokerBed, client: BedClient
) -> None:
    attributes = "+queue.type=SimpleCQ,+cleanup.policy=DELETE,+message.type=FIFO"
    reply = await create(client, attributes=attributes, version=VERSION_5_5_0)
    assert reply.code == ResponseCode.SUCCESS


async def test_a_static_topic_is_refused(client: BedClient) -> None:
    header = CreateTopicHeader(
        topic="mapped",
        default_topic="TBW102",
        read_queue_nums=1,
        write_queue_nums=1,
        perm=6,
        topic_filter_type="SINGLE_TAG",
    )
    reply = await client.ask(RequestCode.UPDATE_AND_CREATE_STATIC_TOPIC, header, b"{}")
    assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    assert "static topics" in (reply.remark or "")
