"""Ranges of a queue at a broker that gives little, goes away, or has less than it had."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import pytest

from roquet import AsyncTopicReader, QueueRef, RecordChunk
from roquet.client.cluster.pulling import PULL_SIZE_MAX
from roquet.client.errors import BadArgument, NotOpen, OffsetsGone, Unreachable
from roquet.client.group.subscriptions import subscription_of
from roquet.client.reader.chunk import CHUNK_COUNT, CHUNK_SIZE
from roquet.client.reader.range_reader import (
    PULL_COUNT_MAX,
    FetchSizeEstimate,
    FilteredFetchEstimate,
)
from roquet.client.reader.reader import ALL
from roquet.protocol.messages.record import split_records
from roquet.protocol.subscription import Subscription
from tests.support.eventually import eventually
from tests.support.pulled_queue import (
    BROKER_NAME,
    TOPIC,
    PulledQueue,
    Replica,
    pulled_queue,
    record,
    records,
)
from tests.support.raising import raises

QUEUE = QueueRef(TOPIC, BROKER_NAME, 0)
KILOBYTE = 1024
MEGABYTE = 1024 * KILOBYTE


@asynccontextmanager
async def reading(
    queue: PulledQueue,
    patience_s: float = 20.0,
    in_flight: int = 32,
    ahead_size: int = 8 * MEGABYTE,
) -> AsyncIterator[AsyncTopicReader]:
    async with AsyncTopicReader(
        queue.name_server, patience_s=patience_s, in_flight=in_flight, ahead_size=ahead_size
    ) as reader:
        yield reader


async def read(
    reader: AsyncTopicReader,
    start: int,
    end: int,
    subscription: Subscription = ALL,
    *,
    skip_gone: bool = False,
) -> list[RecordChunk]:
    chunks = reader.records(QUEUE, start, end, subscription=subscription, skip_gone=skip_gone)
    return [chunk async for chunk in chunks]


async def read_from(
    replica: Replica, start: int, end: int, subscription: Subscription = ALL
) -> list[RecordChunk]:
    async with pulled_queue(replica) as queue, reading(queue) as reader:
        return await read(reader, start, end, subscription)


async def rest(chunks: AsyncIterator[RecordChunk]) -> list[RecordChunk]:
    return [chunk async for chunk in chunks]


def offsets(chunks: list[RecordChunk]) -> list[int]:
    return [message.queue_offset for chunk in chunks for message in split_records(chunk.data)]


# --- stock limits ---


@pytest.mark.parametrize("count_max", [1, 8, 32, 33, 5000])
async def test_a_range_comes_whole_however_little_the_broker_gives(count_max: int) -> None:
    replica = Replica(records(2000), count_max=count_max)
    assert offsets(await read_from(replica, 3, 1990)) == list(range(3, 1990))
    # What is short is asked for again, and not much of it twice.
    assert len(replica.pulls) <= 1.2 * 1987 / count_max + 3


async def test_what_is_limited_by_bytes_comes_whole() -> None:
    sizes = random.Random(7)
    queue = {
        offset: record(offset, body=bytes(sizes.randrange(60 * KILOBYTE))) for offset in range(400)
    }
    replica = Replica(queue, size_max=64 * KILOBYTE)
    assert offsets(await read_from(replica, 0, 400)) == list(range(400))


async def test_limits_may_change_on_the_way() -> None:
    """As a stock broker's do, from 8 messages on disk to 32 in memory."""
    replica = Replica(records(6000), count_max=8)
    real_reply = replica.reply

    def reply(pull):  # type: ignore[no-untyped-def]
        replica.count_max = 8 if pull.queue_offset < 1000 else 32
        return real_reply(pull)

    replica.reply = reply  # type: ignore[method-assign]
    assert offsets(await read_from(replica, 0, 6000)) == list(range(6000))
    assert len(replica.pulls) < 125 + 200


async def test_many_pulls_are_on_their_way_at_the_same_time() -> None:
    replica = Replica(records(2000))
    real_reply = replica.reply

    def reply(pull):  # type: ignore[no-untyped-def]
        replica.is_holding = True  # after the first one
        return real_reply(pull)

    replica.reply = reply  # type: ignore[method-assign]
    async with pulled_queue(replica) as queue, reading(queue, in_flight=20) as reader:
        chunks = asyncio.create_task(read(reader, 0, 2000))
        await eventually(lambda: len(replica.held) == 20)
        first_held = [pull.queue_offset for pull in replica.pulls[-20:]]
        assert first_held == sorted(set(first_held))
        replica.is_holding = False
        replica.reply = real_reply  # type: ignore[method-assign]
        replica.let_go()
        assert offsets(await chunks) == list(range(2000))


async def test_chunks_are_large_and_say_where_they_start_and_end() -> None:
    chunks = await read_from(Replica(records(20_000)), 5, 20_000)
    assert len(chunks) == 3
    assert all(chunk.count >= CHUNK_COUNT for chunk in chunks[:-1])
    assert [chunk.start_offset for chunk in chunks] == [
        5,
        *(each.next_offset for each in chunks[:-1]),
    ]
    assert chunks[-1].next_offset == 20_000
    assert [chunk.count for chunk in chunks] == [
        len(list(split_records(chunk.data))) for chunk in chunks
    ]


async def test_chunks_of_large_messages_are_not_larger_for_it() -> None:
    queue = records(40, body=bytes(MEGABYTE))
    chunks = await read_from(Replica(queue), 0, 40)
    assert offsets(chunks) == list(range(40))
    assert max(len(chunk.data) for chunk in chunks) < CHUNK_SIZE + 2 * MEGABYTE


async def until_pulls_end(reader: AsyncTopicReader, replica: Replica) -> None:
    pulled_count = -1
    while pulled_count != len(replica.pulls):
        pulled_count = len(replica.pulls)
        # A pull that was allowed would be here by then.
        await reader.queues(TOPIC)


async def test_nothing_is_read_ahead_beyond_the_limit() -> None:
    replica = Replica(records(20_000))
    async with (
        pulled_queue(replica) as queue,
        reading(queue, ahead_size=20 * KILOBYTE) as reader,
    ):
        chunks = reader.records(QUEUE, 0, 20_000)
        first = await anext(chunks)
        await until_pulls_end(reader, replica)
        furthest = max(pull.queue_offset for pull in replica.pulls)
        # A record takes more than a hundred bytes.
        assert furthest < first.next_offset + 200
        assert offsets([first, *await rest(chunks)]) == list(range(20_000))


async def test_large_messages_behind_small_ones_are_not_read_ahead_either() -> None:
    """What is believed of the small ones is wrong for the others."""
    queue = records(4000)
    for offset in range(1000, 4000):
        queue[offset] = record(offset, body=bytes(16 * KILOBYTE))
    replica = Replica(queue, count_max=1000, scan_count=4000)
    async with pulled_queue(replica) as served, reading(served, ahead_size=MEGABYTE) as reader:
        chunks = reader.records(QUEUE, 0, 4000)
        first = await anext(chunks)
        await until_pulls_end(reader, replica)
        per_pull = replica.size_max // len(queue[1000])
        brought = sum(per_pull for pull in replica.pulls if pull.queue_offset >= 1000)
        delivered = max(0, first.next_offset - 1000)
        ahead = MEGABYTE // len(queue[1000])
        # What is on its way when the limit is reached comes, too: a reply for each of three spans.
        assert brought - delivered <= ahead + 4 * per_pull
        assert offsets([first, *await rest(chunks)]) == list(range(4000))


async def test_an_empty_range_sends_no_request() -> None:
    replica = Replica(records(10))
    assert await read_from(replica, 5, 5) == []
    assert replica.pulls == []


async def test_other_limits_than_stock_are_named_to_brokers_that_know_them() -> None:
    replica = Replica(records(10))
    await read_from(replica, 0, 10)
    assert {pull.max_msg_bytes for pull in replica.pulls} == {352 * KILOBYTE}
    assert {pull.consumer_group for pull in replica.pulls} == {"TOOLS_CONSUMER"}
    assert {pull.commit_offset for pull in replica.pulls} == {0}


@pytest.mark.slow
async def test_a_client_that_leaves_early_stops_the_pulls() -> None:
    replica = Replica(records(100_000))
    async with pulled_queue(replica) as queue, reading(queue, ahead_size=100 * KILOBYTE) as reader:
        async for _ in reader.records(QUEUE, 0, 100_000):
            assert any(f"read {QUEUE}" in task.get_name() for task in asyncio.all_tasks())
            break
        await eventually(
            lambda: not any(f"read {QUEUE}" in task.get_name() for task in asyncio.all_tasks())
        )


# --- filters ---


@pytest.mark.parametrize("share", [1.0, 0.5, 0.03, 0.0])
async def test_what_a_filter_lets_pass_comes_once_and_in_order(share: float) -> None:
    chance = random.Random(3)
    wanted = {offset for offset in range(10_000) if chance.random() < share}
    queue = {
        offset: record(offset, properties={"TAGS": "red" if offset in wanted else "blue"})
        for offset in range(10_000)
    }
    replica = Replica(queue, is_wanted=wanted.__contains__)
    chunks = await read_from(replica, 10, 9_990, subscription_of(TOPIC, tags="red"))
    assert offsets(chunks) == [offset for offset in sorted(wanted) if 10 <= offset < 9_990]
    if chunks:
        assert chunks[-1].next_offset == 9_990
    assert {pull.subscription for pull in replica.pulls} == {"red"}


@pytest.mark.parametrize(
    "subscription",
    [
        subscription_of(TOPIC, tags="Aa || green"),
        subscription_of(TOPIC, sql="TAGS = 'Aa'"),
    ],
    ids=["tags", "sql"],
)
async def test_what_a_broker_lets_pass_is_looked_at_again(subscription: Subscription) -> None:
    """It compares hashes of tags, and filters nothing by an expression it cannot compile."""
    queue = {
        offset: record(offset, properties={"TAGS": ("Aa", "BB")[offset % 2]})
        for offset in range(500)
    }
    chunks = await read_from(Replica(queue), 0, 500, subscription)
    assert offsets(chunks) == list(range(0, 500, 2))


async def test_an_expression_that_cannot_be_compiled_is_refused() -> None:
    with raises(BadArgument, argument="sql"):
        await read_from(Replica(records(1)), 0, 1, subscription_of(TOPIC, sql="price >"))


# --- what is not there ---


async def test_what_is_before_the_queue_is_named() -> None:
    with pytest.raises(OffsetsGone) as raised:
        await read_from(Replica(records(100), min_offset=40), 10, 90)
    error = raised.value
    assert (error.queue, error.wanted, error.available) == (QUEUE, (10, 90), (40, 100))


async def test_what_is_behind_the_queue_is_named() -> None:
    with pytest.raises(OffsetsGone) as raised:
        await read_from(Replica(records(100)), 90, 110)
    assert (raised.value.wanted, raised.value.available) == ((100, 110), (0, 100))


async def test_a_topic_that_was_recreated_is_noticed() -> None:
    with pytest.raises(OffsetsGone) as raised:
        await read_from(Replica(records(5)), 90, 110)
    assert (raised.value.wanted, raised.value.available) == ((90, 110), (0, 5))


async def test_an_empty_queue_has_nothing() -> None:
    with pytest.raises(OffsetsGone):
        await read_from(Replica(), 0, 10)


async def test_what_comes_before_a_gap_is_handed_out_first() -> None:
    queue = records(1000)
    del queue[700]
    async with pulled_queue(Replica(queue)) as served, reading(served) as reader:
        chunks = reader.records(QUEUE, 0, 1000)
        found = offsets([await anext(chunks)])
        with pytest.raises(OffsetsGone) as raised:
            await anext(chunks)
    assert raised.value.wanted == (700, 1000)
    # Up to the reply with the gap.
    assert found == list(range(len(found)))
    assert 660 < len(found) <= 700


async def test_gaps_are_skipped_on_request() -> None:
    queue = records(1000)
    for offset in (*range(300), 500, *range(600, 700)):
        del queue[offset]
    replica = Replica(queue, min_offset=200, max_offset=1000)
    async with pulled_queue(replica) as served, reading(served) as reader:
        chunks = await read(reader, 0, 1100, skip_gone=True)
    assert offsets(chunks) == sorted(queue)
    assert (chunks[0].start_offset, chunks[-1].next_offset) == (0, 1100)


async def test_messages_that_expire_during_the_read_are_an_error() -> None:
    replica = Replica(records(30_000))
    async with pulled_queue(replica) as queue, reading(queue, ahead_size=100 * KILOBYTE) as reader:
        chunks = reader.records(QUEUE, 0, 30_000)
        await anext(chunks)
        replica.min_offset = 25_000
        with pytest.raises(OffsetsGone) as raised:
            await rest(chunks)
    assert raised.value.available == (25_000, 30_000)


# --- brokers that go away ---


@pytest.mark.slow
async def test_reading_continues_when_the_broker_is_back(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    replica = Replica(records(40_000))
    async with pulled_queue(replica) as queue, reading(queue, ahead_size=100 * KILOBYTE) as reader:
        chunks = reader.records(QUEUE, 0, 40_000)
        found = [await anext(chunks)]
        await queue.stop(replica)
        more = asyncio.create_task(anext(chunks))
        await eventually(lambda: "retrying" in caplog.text)
        await queue.start(replica)
        found += [await more, *await rest(chunks)]
    assert offsets(found) == list(range(40_000))


async def test_a_broker_that_stays_away_is_an_error() -> None:
    replica = Replica(records(40_000))
    async with (
        pulled_queue(replica) as queue,
        reading(queue, patience_s=0.3, ahead_size=100 * KILOBYTE) as reader,
    ):
        chunks = reader.records(QUEUE, 0, 40_000)
        await anext(chunks)
        await queue.stop(replica)
        with raises(Unreachable, broker=BROKER_NAME):
            await rest(chunks)


async def test_without_its_master_a_slave_is_read() -> None:
    queue_records = records(20_000)
    master, slave = Replica(queue_records), Replica(queue_records, broker_id=1)
    async with (
        pulled_queue(master, slave) as queue,
        reading(queue, ahead_size=100 * KILOBYTE) as reader,
    ):
        chunks = reader.records(QUEUE, 0, 20_000)
        found = [await anext(chunks)]
        assert not slave.pulls
        queue.listed.remove(master)
        await queue.stop(master)
        found += await rest(chunks)
    assert offsets(found) == list(range(20_000))
    assert slave.pulls


async def test_what_a_slave_does_not_have_yet_is_waited_for() -> None:
    slave = Replica(records(100), broker_id=1, suggested_id=1)
    async with pulled_queue(Replica(), slave) as queue, reading(queue) as reader:
        queue.listed.pop(0)
        chunks = asyncio.create_task(read(reader, 0, 200))
        await eventually(lambda: any(pull.queue_offset >= 100 for pull in slave.pulls))
        slave.records.update(records(200))
        assert offsets(await chunks) == list(range(200))


async def test_bounds_are_known_without_the_master() -> None:
    async with (
        pulled_queue(Replica(records(7)), Replica(records(5), broker_id=1)) as queue,
        reading(queue) as reader,
    ):
        assert (await reader.bounds([QUEUE]))[QUEUE] == (0, 7)
        queue.listed.pop(0)
        await reader.queues(TOPIC)
        assert (await reader.bounds([QUEUE]))[QUEUE] == (0, 5)


@pytest.mark.slow
async def test_a_reader_that_is_closed_ends_what_is_read() -> None:
    replica = Replica(records(2000))
    async with pulled_queue(replica) as queue, reading(queue) as reader:
        chunks = asyncio.create_task(read(reader, 0, 2000))
        await eventually(lambda: len(replica.pulls) >= 1)
        replica.is_holding = True
        await eventually(lambda: len(replica.held) > 1)
        await reader.close()
        with pytest.raises(NotOpen):
            await chunks


# --- times ---


@pytest.mark.parametrize("guess", [0, 37, 99])
@pytest.mark.parametrize(
    ("moment_ms", "wanted"),
    [(1000, 0), (1001, 10), (2000, 10), (3001, 100)],
)
async def test_the_first_message_of_a_moment_is_found_whatever_the_broker_guesses(
    guess: int, moment_ms: int, wanted: int
) -> None:

    def stored_ms(offset: int) -> int:
        return 1000 if offset < 10 else 2000 if offset < 40 else 3000

    queue = {offset: record(offset, store_timestamp=stored_ms(offset)) for offset in range(100)}
    async with pulled_queue(Replica(queue, guess=guess)) as served, reading(served) as reader:
        moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
        assert await reader.offsets_at([QUEUE], moment) == {QUEUE: wanted}


SMALL = 300


def test_a_short_reply_says_how_many_a_broker_gives() -> None:
    estimate = FetchSizeEstimate()
    assert estimate.span_count == PULL_COUNT_MAX
    estimate.note(PULL_COUNT_MAX, 32, 32 * SMALL)
    assert estimate.span_count == 32
    estimate.note(32, 8, 8 * SMALL)
    assert estimate.span_count == 8


def test_a_reply_that_its_size_ended_leaves_room_for_larger_messages() -> None:
    """Else every other pull would miss its last few messages, and cost one more."""
    estimate = FetchSizeEstimate()
    estimate.note(PULL_COUNT_MAX, 1000, PULL_SIZE_MAX - 100)
    assert estimate.span_count == 875


def test_a_large_message_is_still_asked_for() -> None:
    estimate = FetchSizeEstimate()
    estimate.note(32, 1, 4_000_000)
    assert estimate.span_count == 1


def test_full_replies_lead_to_larger_ones_as_long_as_they_are_small() -> None:
    estimate = FetchSizeEstimate()
    estimate.note(32, 8, 8 * SMALL)
    for _ in range(8):
        estimate.note(8, 8, 8 * SMALL)
    assert estimate.span_count == 16
    for _ in range(100):
        estimate.note(16, 16, PULL_SIZE_MAX)
    assert estimate.span_count == 16
    for _ in range(100):
        estimate.note(estimate.span_count, estimate.span_count, 0)
    assert estimate.span_count == PULL_COUNT_MAX


def test_spans_of_a_filter_take_several_pulls() -> None:
    estimate = FilteredFetchEstimate()
    estimate.note(PULL_COUNT_MAX, 800, 0)
    assert estimate.span_count == 6400
    for _ in range(30):
        estimate.note(PULL_COUNT_MAX, 40, 32 * SMALL)
    assert 300 < estimate.span_count < 400
