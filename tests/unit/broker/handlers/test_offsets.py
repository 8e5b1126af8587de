"""Positions in queues: asked for, committed, searched, copied."""

from pathlib import Path
from typing import Any

import pytest

from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.bodies.offsets import ConsumerOffsetTable, CorrectionOffsets
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header, field_texts, read_header
from roquet.protocol.headers.brokers import (
    AllOffsetsHeader,
    AllOffsetsReplyHeader,
)
from roquet.protocol.headers.groups import (
    CloneGroupOffsetHeader,
    CorrectionOffsetHeader,
    EarliestStoreTimeHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    QueryConsumerOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from tests.support.broker_bed import VERSION_4_9_7, VERSION_5_5_0, BedClient, BrokerBed, broker_bed
from tests.support.fake_clock import START_MS
from tests.support.inner_parts import queues_of
from tests.support.stores import small_config


def offset_of(reply: Command) -> int:
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return int(field_texts(reply.fields)["offset"])


async def query(client: BedClient, *, set_zero: bool | None = None) -> Command:
    header = QueryConsumerOffsetHeader(
        consumer_group="g", topic="TopicA", queue_id=0, set_zero_if_not_found=set_zero
    )
    return await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)


async def commit(
    client: BedClient,
    offset: int = 5,
    *,
    group: str = "g",
    topic: str = "TopicA",
    queue_id: int = 0,
    version: int = VERSION_4_9_7,
) -> ResponseCode:
    header = UpdateConsumerOffsetHeader(
        consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
    )
    reply = await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header, version=version)
    return ResponseCode(reply.code)


async def test_what_was_committed_is_known_also_when_it_goes_back(client: BedClient) -> None:
    assert await commit(client, 5) == ResponseCode.SUCCESS
    assert offset_of(await query(client)) == 5
    assert await commit(client, 3) == ResponseCode.SUCCESS
    assert offset_of(await query(client)) == 3


async def test_a_new_group_reads_a_young_queue_from_its_start(
    bed: BrokerBed, client: BedClient
) -> None:
    assert offset_of(await query(client)) == 0
    bed.put()
    assert offset_of(await query(client)) == 0


async def test_a_new_group_decides_itself_where_the_start_is_gone(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.put()
    queue = queues_of(bed.broker.store).find(b"TopicA", 0)
    assert queue is not None
    queue.min_offset = 1
    assert (await query(client)).code == ResponseCode.QUERY_NOT_FOUND


async def test_a_new_group_decides_itself_where_the_start_has_left_the_memory(
    tmp_path: Path,
) -> None:
    store = small_config(tmp_path, memory_size=1000, memory_percent=40)
    async with broker_bed(tmp_path, store=store) as bed:
        client = bed.connect()
        bed.put(bytes(100))
        assert offset_of(await query(client)) == 0
        bed.put(bytes(400))
        assert (await query(client)).code == ResponseCode.QUERY_NOT_FOUND


async def test_a_5_x_client_can_ask_without_getting_a_zero(client: BedClient) -> None:
    assert (await query(client, set_zero=False)).code == ResponseCode.QUERY_NOT_FOUND
    assert offset_of(await query(client, set_zero=True)) == 0


async def test_4_9_tools_may_commit_for_a_group_that_is_not_there_and_5_x_may_not(
    bed: BrokerBed, client: BedClient
) -> None:
    assert await commit(client, group="clone") == ResponseCode.SUCCESS
    assert bed.broker.tables.offsets.find("clone", "TopicA", 0) == 5
    code = await commit(client, group="other", version=VERSION_5_5_0)
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert bed.broker.tables.offsets.find("other", "TopicA", 0) is None
    bed.broker.tables.groups.update(GroupConfig(group_name="other"))
    assert await commit(client, group="other", version=VERSION_5_5_0) == ResponseCode.SUCCESS


async def test_late_commits_for_a_deleted_topic_are_refused(
    bed: BrokerBed, client: BedClient
) -> None:
    await commit(client)
    bed.broker.tables.topics.delete("TopicA")
    bed.broker.tables.offsets.forget_topic("TopicA")
    assert await commit(client) == ResponseCode.TOPIC_NOT_EXIST
    assert bed.broker.tables.offsets.find("g", "TopicA", 0) is None


async def test_a_queue_that_a_topic_had_may_still_be_committed(
    bed: BrokerBed, client: BedClient
) -> None:
    await commit(client, queue_id=1)
    bed.broker.tables.topics.update(
        TopicConfig(topic_name="TopicA", read_queue_nums=1, write_queue_nums=1)
    )
    assert await commit(client, 6, queue_id=1) == ResponseCode.SUCCESS
    assert await commit(client, 6, group="other", queue_id=1) == ResponseCode.SYSTEM_ERROR


async def test_groups_that_have_nothing_but_offsets_have_a_bound(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, created_group_count_max=10) as bed:
        bed.broker.tables.topics.update(TopicConfig(topic_name="TopicA"))
        bed.broker.tables.groups.update(GroupConfig(group_name="known"))
        client = bed.connect()
        codes = [await commit(client, group=f"made-up-{each}") for each in range(12)]
        assert codes == [ResponseCode.SUCCESS] * 10 + [ResponseCode.SYSTEM_ERROR] * 2
        assert await commit(client, 6, group="made-up-0") == ResponseCode.SUCCESS
        assert await commit(client, group="known") == ResponseCode.SUCCESS


async def test_offsets_have_a_bound_that_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with broker_bed(tmp_path, offset_count_max=2) as bed:
        bed.broker.tables.topics.update(TopicConfig(topic_name="TopicA"))
        client = bed.connect()
        codes = [await commit(client, queue_id=each) for each in range(4)]
        assert codes == [ResponseCode.SUCCESS] * 2 + [ResponseCode.SYSTEM_BUSY] * 2
        assert await commit(client, 6) == ResponseCode.SUCCESS
        assert caplog.text.count("maxConsumerOffsets") == 1
        bed.broker.tables.offsets.forget_group("g")
        assert await commit(client, queue_id=3) == ResponseCode.SUCCESS


@pytest.mark.parametrize(
    "changes",
    [{"offset": -1}, {"queue_id": -1}, {"queue_id": 2}, {"group": "a/b"}],
)
async def test_commits_that_cannot_be_are_refused(
    bed: BrokerBed, client: BedClient, changes: dict[str, Any]
) -> None:
    assert await commit(client, **changes) == ResponseCode.SYSTEM_ERROR
    assert bed.broker.tables.offsets.change_count == 0


async def test_a_queue_says_where_it_starts_and_ends(bed: BrokerBed, client: BedClient) -> None:
    for _ in range(3):
        bed.put()
        bed.clock.advance(1)
    minimum = GetMinOffsetHeader(topic="TopicA", queue_id=0)
    maximum = GetMaxOffsetHeader(topic="TopicA", queue_id=0)
    assert offset_of(await client.ask(RequestCode.GET_MIN_OFFSET, minimum)) == 0
    assert offset_of(await client.ask(RequestCode.GET_MAX_OFFSET, maximum)) == 3
    header = EarliestStoreTimeHeader(topic="TopicA", queue_id=0)
    reply = await client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, header)
    assert field_texts(reply.fields) == {"timestamp": str(START_MS)}


async def test_a_queue_that_is_not_there_starts_and_ends_at_0(client: BedClient) -> None:
    headers: list[tuple[RequestCode, Header]] = [
        (RequestCode.GET_MIN_OFFSET, GetMinOffsetHeader(topic="no", queue_id=7)),
        (RequestCode.GET_MAX_OFFSET, GetMaxOffsetHeader(topic="no", queue_id=7)),
        (
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
            SearchOffsetHeader(topic="no", queue_id=7, timestamp=1),
        ),
    ]
    for code, header in headers:
        assert offset_of(await client.ask(code, header)) == 0
    header = EarliestStoreTimeHeader(topic="no", queue_id=7)
    reply = await client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, header)
    assert field_texts(reply.fields) == {"timestamp": "-1"}


@pytest.mark.parametrize(
    ("time_ms", "boundary", "offset"),
    [
        (0, None, 0),
        (500, None, 1),
        (1000, "LOWER", 1),
        (5000, None, 3),
        (500, "upper", 0),
        (1000, "UPPER", 1),
        (5000, "UPPER", 2),
        (500, "what?", 1),
    ],
)
async def test_a_time_is_searched_from_the_side_that_is_asked_for(
    bed: BrokerBed, client: BedClient, time_ms: int, boundary: str | None, offset: int
) -> None:
    for _ in range(3):
        bed.put()
        bed.clock.advance(1)
    header = SearchOffsetHeader(
        topic="TopicA", queue_id=0, timestamp=START_MS + time_ms, boundary_type=boundary
    )
    reply = await client.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
    assert offset_of(reply) == offset


async def test_slaves_get_all_offsets(bed: BrokerBed, client: BedClient) -> None:
    await commit(client)
    reply = await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
    table = read_body(ConsumerOffsetTable, reply.body)
    assert table.offset_table == {"TopicA@g": {0: 5}}
    # Those of Apache get what Apache sends them.
    assert field_texts(reply.fields) == {}


async def test_a_slave_that_has_all_offsets_gets_none(bed: BrokerBed, client: BedClient) -> None:
    await commit(client)
    header = AllOffsetsHeader(known_version="")
    reply = await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET, header)
    version = read_header(AllOffsetsReplyHeader, reply.fields).version
    header = AllOffsetsHeader(known_version=version)
    assert (await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET, header)).body == b""
    bed.broker.tables.offsets.commit("g", "TopicA", 0, 6)
    assert (await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET, header)).body != b""


async def clone(
    client: BedClient, topic: str | None = None, target: str = "clone", *, offline: bool = False
) -> ResponseCode:
    header = CloneGroupOffsetHeader(src_group="g", dest_group=target, topic=topic, offline=offline)
    return ResponseCode((await client.ask(RequestCode.CLONE_GROUP_OFFSET, header)).code)


@pytest.mark.parametrize("topic", ["TopicA", None])
async def test_offsets_are_copied_and_saved(
    bed: BrokerBed, client: BedClient, topic: str | None
) -> None:
    await commit(client)
    bed.broker.tables.offsets.commit("g", "gone", 0, 1)
    assert await clone(client, topic) == ResponseCode.SUCCESS
    assert bed.broker.tables.offsets.topics_of("clone") == ["TopicA"]
    assert bed.broker.tables.offsets.find("clone", "TopicA", 0) == 5
    assert bed.has_saved_offsets


async def test_of_a_connected_group_only_what_it_still_reads_is_copied(
    bed: BrokerBed, client: BedClient
) -> None:
    await commit(client)
    bed.broker.tables.topics.update(TopicConfig(topic_name="TopicB"))
    await client.beat("c1", reads={"g": ["TopicB"]})
    await clone(client)
    assert bed.broker.tables.offsets.topics_of("clone") == []
    await clone(client, offline=True)
    assert bed.broker.tables.offsets.topics_of("clone") == ["TopicA"]


async def test_offsets_are_not_copied_to_a_group_that_cannot_be(client: BedClient) -> None:
    assert await clone(client, target="a b") == ResponseCode.SYSTEM_ERROR


async def test_the_group_that_is_furthest_behind_is_found_for_each_queue(
    bed: BrokerBed, client: BedClient
) -> None:
    for group, offsets in {"g": (5, 2), "h": (3, 4), "ignored": (1, 1)}.items():
        for queue_id, offset in enumerate(offsets):
            bed.broker.tables.offsets.commit(group, "TopicA", queue_id, offset)
    header = CorrectionOffsetHeader(
        compare_group="g", topic="TopicA", filter_groups="ignored,nobody"
    )
    reply = await client.ask(RequestCode.QUERY_CORRECTION_OFFSET, header)
    assert read_body(CorrectionOffsets, reply.body).correction_offsets == {0: 3, 1: 2}


async def test_no_other_group_is_behind_one_that_is_left_out_itself(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.broker.tables.offsets.commit("g", "TopicA", 0, 5)
    bed.broker.tables.offsets.commit("h", "TopicA", 0, 7)
    header = CorrectionOffsetHeader(compare_group="g", topic="TopicA", filter_groups="g")
    reply = await client.ask(RequestCode.QUERY_CORRECTION_OFFSET, header)
    assert read_body(CorrectionOffsets, reply.body).correction_offsets == {0: 2**63 - 1}
