"""Messages by key and by physical offset, and entries of queues."""

from pathlib import Path

import pytest

from roquet.broker.handlers.reading import ENTRY_COUNT_MAX, UNIQUE_KEY_COUNT_MAX
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.topics import ConsumeQueueView
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import field_texts
from roquet.protocol.headers.messages import QueryMessageHeader, ViewMessageHeader
from roquet.protocol.headers.topics import QueryConsumeQueueHeader
from roquet.protocol.java_hash import java_hash
from roquet.protocol.messages.record import split_records
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.fake_clock import START_MS
from tests.support.faulty_disk import FaultyDisk
from tests.support.inner_parts import index_of
from tests.support.stores import small_config

FOR_EVER = 2**63 - 1


async def query(
    client: BedClient,
    key: str,
    max_num: int = 32,
    *,
    is_unique_key: bool | None = None,
    index_type: str | None = None,
) -> Command:
    header = QueryMessageHeader(
        topic="TopicA",
        key=key,
        max_num=max_num,
        begin_timestamp=0,
        end_timestamp=FOR_EVER,
        is_unique_key=is_unique_key,
        index_type=index_type,
    )
    return await client.ask(RequestCode.QUERY_MESSAGE, header)


def bodies(reply: Command) -> list[bytes]:
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    return [message.body for message in split_records(reply.body)]


async def test_messages_are_found_by_each_of_their_keys(bed: BrokerBed, client: BedClient) -> None:
    bed.put(b"1", properties={"KEYS": "red green", "UNIQ_KEY": "U1"})
    bed.put(b"2", properties={"KEYS": "green"})
    last = bed.put(b"3", topic="TopicB", properties={"KEYS": "green"})
    assert bodies(await query(client, "red")) == [b"1"]
    assert bodies(await query(client, "U1")) == [b"1"]
    reply = await query(client, "green")
    assert bodies(reply) == [b"1", b"2"]
    assert field_texts(reply.fields) == {
        "indexLastUpdateTimestamp": str(START_MS),
        "indexLastUpdatePhyoffset": str(last.physical_offset),
    }


async def test_a_look_up_waits_until_the_keys_of_all_messages_are_filed(
    bed: BrokerBed, client: BedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(10):
        bed.put(b"%d" % number, properties={"KEYS": "red" if number == 9 else "green"})
    # As after a crash.
    index_of(bed.broker.store).fall_behind(0)
    steps = []

    def file_two() -> bool:
        steps.append(file_keys(2))
        return steps[-1]

    file_keys = bed.broker.store.file_keys
    monkeypatch.setattr(bed.broker.store, "file_keys", file_two)
    assert bodies(await query(client, "red")) == [b"9"]
    assert len(steps) > 2
    assert steps[-2:] == [False, True]


async def test_as_many_as_wanted_are_found_and_with_a_unique_key_all(
    bed: BrokerBed, client: BedClient
) -> None:
    for index in range(UNIQUE_KEY_COUNT_MAX + 1):
        bed.put(b"%d" % index, properties={"UNIQ_KEY": "U"})
    assert len(bodies(await query(client, "U", 2))) == 2
    assert len(bodies(await query(client, "U", 2, is_unique_key=False))) == 2
    assert len(bodies(await query(client, "U", 2, is_unique_key=True))) == UNIQUE_KEY_COUNT_MAX


@pytest.mark.parametrize("max_num", [0, -1])
async def test_a_client_that_wants_nothing_finds_nothing(
    bed: BrokerBed, client: BedClient, max_num: int
) -> None:
    bed.put(properties={"KEYS": "k"})
    assert (await query(client, "k", max_num)).code == ResponseCode.QUERY_NOT_FOUND


async def test_nothing_found_is_reported_with_how_fresh_the_index_is(client: BedClient) -> None:
    reply = await query(client, "k")
    assert reply.code == ResponseCode.QUERY_NOT_FOUND
    assert field_texts(reply.fields).keys() == {
        "indexLastUpdateTimestamp",
        "indexLastUpdatePhyoffset",
    }


async def test_messages_are_found_by_tag_where_tags_are_filed(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, store=small_config(tmp_path, index_tags=True)) as bed:
        client = bed.connect()
        bed.put(b"1", properties={"TAGS": "blue"})
        assert bodies(await query(client, "blue", index_type="T")) == [b"1"]
        assert (await query(client, "blue", index_type="K")).code == ResponseCode.QUERY_NOT_FOUND


async def test_a_disk_that_takes_no_index_costs_the_query_and_nothing_else(
    tmp_path: Path,
) -> None:
    disk = FaultyDisk(tmp_path)
    async with broker_bed(tmp_path, disk=disk) as bed:
        client = bed.connect()
        bed.put(properties={"KEYS": "k"})
        disk.is_full = True
        await query(client, "k")
        refusal = await query(client, "k")
        disk.is_full = False
        assert refusal.code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert bodies(await query(client, "k")) == [b"hello"]


async def test_a_message_is_seen_by_its_physical_offset(bed: BrokerBed, client: BedClient) -> None:
    bed.put(b"1")
    second = bed.put(b"2")
    header = ViewMessageHeader(offset=second.physical_offset)
    assert bodies(await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, header)) == [b"2"]


@pytest.mark.parametrize("offset", [-1, 1, 99_999_999_999])
async def test_where_no_message_starts_none_is_seen(
    bed: BrokerBed, client: BedClient, offset: int
) -> None:
    bed.put()
    header = ViewMessageHeader(offset=offset)
    reply = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, header)
    assert reply.code == ResponseCode.SYSTEM_ERROR


async def view(
    client: BedClient,
    index: int = 0,
    count: int = 10,
    *,
    topic: str = "TopicA",
    consumer_group: str | None = None,
) -> Command:
    header = QueryConsumeQueueHeader(
        topic=topic, queue_id=0, index=index, count=count, consumer_group=consumer_group
    )
    return await client.ask(RequestCode.QUERY_CONSUME_QUEUE, header)


async def test_the_entries_of_a_queue_are_shown(bed: BrokerBed, client: BedClient) -> None:
    appended = [bed.put(properties={"TAGS": "blue"}) for _ in range(3)]
    found = read_body(ConsumeQueueView, (await view(client, 1, 1)).body)
    (entry,) = found.queue_data
    assert (entry.physic_offset, entry.physic_size) == (
        appended[1].physical_offset,
        appended[1].size,
    )
    assert entry.tags_code == java_hash("blue")
    assert (found.min_queue_index, found.max_queue_index) == (0, 3)
    assert (found.subscription_data, found.filter_data) == (None, None)


@pytest.mark.parametrize(("index", "count"), [(3, 10), (-1, 10), (0, 0), (0, -5), (99, 1)])
async def test_outside_of_a_queue_there_are_no_entries(
    bed: BrokerBed, client: BedClient, index: int, count: int
) -> None:
    for _ in range(3):
        bed.put()
    assert read_body(ConsumeQueueView, (await view(client, index, count)).body).queue_data == []


async def test_one_look_shows_a_limited_number_of_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ENTRY_COUNT_MAX < 10_000
    monkeypatch.setattr("roquet.broker.handlers.reading.ENTRY_COUNT_MAX", 2)
    async with broker_bed(tmp_path) as bed:
        for _ in range(3):
            bed.put()
        found = read_body(ConsumeQueueView, (await view(bed.connect())).body)
        assert len(found.queue_data) == 2


async def test_an_empty_queue_can_be_looked_into_and_an_unknown_topic_cannot(
    client: BedClient,
) -> None:
    assert (await view(client)).code == ResponseCode.SUCCESS
    assert (await view(client, topic="no")).code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_queue_is_shown_with_the_subscription_of_a_group(
    bed: BrokerBed, client: BedClient
) -> None:
    await client.beat("c1", reads={"g": ["TopicA"], "h": []})
    for group, is_subscribed in {"g": True, "h": False, "nobody": False}.items():
        found = read_body(ConsumeQueueView, (await view(client, consumer_group=group)).body)
        assert (found.subscription_data is not None) is is_subscribed
        assert (found.filter_data is None) is is_subscribed
