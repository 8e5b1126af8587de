"""What takes the fast path, what does not, and what is counted.

That both ways say and store the same is the claim of `tests/property/test_fast_path.py`.
"""

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet.broker.fast_path.fast_path import FastPath
from roquet.net.limits import DEFAULT_LIMITS, ConnectionLimits
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import Permission, RequestCode, ResponseCode
from roquet.protocol.command import Command, encode_command
from roquet.protocol.fields import NoFields, read_header
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.protocol.headers.messages import SendMessageReplyHeader
from roquet.protocol.messages.batch_writing import encode_batch
from roquet.protocol.messages.record import split_records
from roquet.store.config import FlushMode
from roquet.store.errors import SyncFailed
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.common_requests import common_pull, common_send
from tests.support.fast_path_traffic import command, frame_of, heartbeat, send_fields
from tests.support.few_descriptors import few_descriptors_left
from tests.support.inner_parts import flusher_of, log_of
from tests.support.late_disk import stop_disk, sync_disk, until_late
from tests.support.stores import messages, small_config

ROOMY = {"commit_log_file_size": 1 << 20, "queue_file_size": 20_000}


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path, store=small_config(tmp_path, **ROOMY)) as bed:
        with_topic(bed)
        yield bed


@pytest.fixture
async def sync_bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    """With sync flush, and a disk that does what the test says."""
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC, **ROOMY)
    async with broker_bed(tmp_path, store=config) as bed:
        with_topic(bed)
        stop_disk(bed)
        yield bed


def with_topic(bed: BrokerBed) -> None:
    """A topic with one message: the first one of a queue is never plain."""
    bed.broker.tables.topics.update(TopicConfig(topic_name="TopicA", read_queue_nums=2))
    bed.put(b"0", topic="TopicA", queue_id=0)
    if bed.broker.messages.acks.is_awaited:
        flusher_of(bed.broker.store).stop()
        bed.broker.store.flush()


def sends(*opaques: int) -> bytes:
    return b"".join(
        encode_command(common_send("TopicA", b"%d" % opaque, opaque=opaque)) for opaque in opaques
    )


def ways(bed: BrokerBed) -> tuple[int, int, int, int]:
    """Sends on the fast path and not, pulls on the fast path and not."""
    counted = bed.broker.statistics
    return counted.sends.fast, counted.sends.slow, counted.pulls.fast, counted.pulls.slow


async def test_a_plain_send_takes_the_fast_path(bed: BrokerBed) -> None:
    client = bed.connect()
    client.connection.data_received(sends(7))
    reply = await client.replied()
    assert (reply.code, reply.opaque) == (ResponseCode.SUCCESS, 7)
    assert read_header(SendMessageReplyHeader, reply.fields).queue_offset == 1
    assert [each.body for each in messages(bed.broker.store)] == [b"0", b"7"]
    assert ways(bed) == (1, 0, 0, 0)


async def test_a_strange_frame_in_the_middle_costs_the_others_nothing(bed: BrokerBed) -> None:
    client = bed.connect()
    strange = encode_command(Command(RequestCode.GET_BROKER_RUNTIME_INFO, 3))
    client.connection.data_received(sends(1, 2) + strange + sends(4, 5))
    assert [(await client.replied()).opaque for _ in range(5)] == [1, 2, 3, 4, 5]
    assert ways(bed) == (4, 0, 0, 0)


async def test_a_wake_up_may_start_and_end_inside_a_frame(bed: BrokerBed) -> None:
    client = bed.connect()
    stream = sends(1, 2, 3, 4)
    for start in range(0, len(stream), 100):
        client.connection.data_received(stream[start : start + 100])
    assert [(await client.replied()).opaque for _ in range(4)] == [1, 2, 3, 4]
    assert ways(bed) == (4, 0, 0, 0)


async def test_the_first_message_of_a_queue_is_left_to_the_handler(bed: BrokerBed) -> None:
    client = bed.connect()
    for opaque in (1, 2):
        frame = encode_command(common_send("TopicA", b"a", queue_id=1, opaque=opaque))
        client.connection.data_received(frame)
        assert (await client.replied()).code == ResponseCode.SUCCESS
    assert ways(bed) == (1, 1, 0, 0)


def batch(*bodies: bytes, queue_id: str = "0", cut: int = 0) -> bytes:
    """With `cut`, the last bytes are missing."""
    body = encode_batch([(0, each, b"TAGS\x01red") for each in bodies])
    fields = send_fields("TopicA", queue_id, "WAIT\x01true", m="true")
    return frame_of(command(320, fields, 4), body[: len(body) - cut])


async def test_a_batch_takes_the_fast_path(bed: BrokerBed) -> None:
    client = bed.connect()
    client.connection.data_received(batch(b"1", b"2", b"3"))
    reply = await client.replied()
    stored = messages(bed.broker.store)[1:]
    receipt = read_header(SendMessageReplyHeader, reply.fields)
    assert [each.body for each in stored] == [b"1", b"2", b"3"]
    assert [each.properties["TAGS"] for each in stored] == ["red"] * 3
    assert (receipt.queue_offset, receipt.msg_id.count(",")) == (1, 2)
    assert ways(bed) == (1, 0, 0, 0)


async def test_a_batch_that_does_not_add_up_is_left_and_refused(bed: BrokerBed) -> None:
    client = bed.connect()
    client.connection.data_received(batch(b"1", b"2", cut=1))
    assert (await client.replied()).code == ResponseCode.SYSTEM_ERROR
    assert len(messages(bed.broker.store)) == 1
    assert ways(bed) == (0, 1, 0, 0)


async def test_a_queue_that_was_deleted_takes_nothing_any_more(bed: BrokerBed) -> None:
    client = bed.connect()
    client.connection.data_received(sends(1))
    bed.broker.store.delete_topic("TopicA")
    client.connection.data_received(sends(2, 3))
    replies = [await client.replied() for _ in range(3)]
    offsets = [read_header(SendMessageReplyHeader, each.fields).queue_offset for each in replies]
    # Its successor starts again, and is made by the handler.
    assert offsets == [1, 0, 1]
    assert ways(bed) == (2, 1, 0, 0)


async def test_a_store_that_takes_nothing_is_not_written_to(bed: BrokerBed) -> None:
    client = bed.connect()
    bed.broker.store._admission.set_disk_full(99)
    client.connection.data_received(sends(1))
    assert (await client.replied()).code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert len(messages(bed.broker.store)) == 1


async def test_what_is_sent_plainly_is_found_by_its_key(bed: BrokerBed) -> None:
    client = bed.connect()
    fields = send_fields("TopicA", "0", "KEYS\x01blue\x02UNIQ_KEY\x01A7")
    client.connection.data_received(frame_of(command(310, fields, 1), b"body"))
    await client.replied()
    for key in ("blue", "A7"):
        assert len(bed.broker.store.query("TopicA", key, 9, 0, 2**62).records) == 1
    assert ways(bed) == (1, 0, 0, 0)


async def test_a_pull_with_its_own_subscription_takes_the_fast_path(bed: BrokerBed) -> None:
    client = bed.connect()
    bed.broker.tables.groups.find_or_create("plain-consumers", may_create=True)
    client.connection.data_received(encode_command(common_pull("TopicA", 0, 0, opaque=5)))
    reply = await client.replied()
    assert (reply.code, reply.opaque, reply.remark) == (ResponseCode.SUCCESS, 5, "FOUND")
    assert ways(bed) == (0, 0, 1, 0)


def pull_of_member(opaque: int) -> bytes:
    """As Java's push consumers pull: their subscriptions came with heartbeats."""
    fields = {
        "consumerGroup": "readers",
        "topic": "TopicA",
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "2",
        "commitOffset": "0",
        "suspendTimeoutMillis": "15000",
        "subVersion": "1",
        "expressionType": "TAG",
    }
    return frame_of(command(11, fields, opaque))


async def codes_of(client: BedClient, count: int) -> dict[int, int]:
    """By opaque: a heartbeat that makes a group is answered when name servers know of it."""
    replies = [await client.replied() for _ in range(count)]
    return {reply.opaque: reply.code for reply in replies}


async def test_a_pull_that_relies_on_heartbeats_takes_the_fast_path(bed: BrokerBed) -> None:
    client = bed.connect()
    client.connection.data_received(heartbeat("readers", "*", 1) + pull_of_member(8))
    assert await codes_of(client, 2) == {1: ResponseCode.SUCCESS, 8: ResponseCode.SUCCESS}
    assert ways(bed) == (0, 0, 1, 0)


async def test_a_newer_heartbeat_counts_for_the_next_pull(bed: BrokerBed) -> None:
    client = bed.connect()
    stream = heartbeat("readers", "*", 1) + pull_of_member(8)
    stream += heartbeat("readers", "red", 2) + pull_of_member(9)
    client.connection.data_received(stream)
    codes = await codes_of(client, 4)
    # The message has no tag, so it is not wanted any more.
    assert (codes[8], codes[9]) == (ResponseCode.SUCCESS, ResponseCode.PULL_RETRY_IMMEDIATELY)


async def test_settings_that_were_changed_meanwhile_count_for_the_next_pull(
    bed: BrokerBed,
) -> None:
    client = bed.connect()
    bed.broker.tables.groups.find_or_create("plain-consumers", may_create=True)
    pull = encode_command(common_pull("TopicA", 0, 0))
    client.connection.data_received(2 * pull)
    assert [(await client.replied()).code for _ in range(2)] == 2 * [ResponseCode.SUCCESS]
    bed.broker.tables.topics.update(TopicConfig(topic_name="TopicA", perm=int(Permission.WRITE)))
    client.connection.data_received(pull)
    assert (await client.replied()).code == ResponseCode.NO_PERMISSION
    assert ways(bed) == (0, 0, 2, 1)


async def test_a_pull_that_finds_nothing_waits(bed: BrokerBed) -> None:
    client = bed.connect()
    bed.broker.tables.groups.find_or_create("plain-consumers", may_create=True)
    pull = common_pull("TopicA", 0, 1, wait_ms=15_000, opaque=5)
    client.connection.data_received(encode_command(pull))
    assert bed.waiting_pull_count == 1
    assert ways(bed) == (0, 0, 1, 0)
    client.connection.data_received(sends(6))
    # Whoever waits is woken by what comes by the fast path.
    assert [(await client.replied()).opaque for _ in range(2)] == [6, 5]


async def test_too_many_pulls_that_wait_are_refused(bed: BrokerBed) -> None:
    client = bed.connect(ConnectionLimits(deferred_count_max=1))
    bed.broker.tables.groups.find_or_create("plain-consumers", may_create=True)
    for opaque in (5, 6):
        pull = common_pull("TopicA", 0, 1, wait_ms=15_000, opaque=opaque)
        client.connection.data_received(encode_command(pull))
    refused = await client.replied()
    assert (refused.code, refused.opaque) == (ResponseCode.SYSTEM_BUSY, 6)
    assert bed.waiting_pull_count == 1


async def test_a_reset_reaches_a_plain_pull(bed: BrokerBed) -> None:
    client = bed.connect()
    bed.broker.tables.groups.find_or_create("plain-consumers", may_create=True)
    bed.broker.tables.offsets.reset("plain-consumers", "TopicA", 0, 0)
    client.connection.data_received(encode_command(common_pull("TopicA", 0, 0)))
    reply = await client.replied()
    assert (reply.code, reply.remark) == (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET")
    assert ways(bed) == (0, 0, 1, 0)


async def test_a_listener_without_pulls_leaves_them_all(bed: BrokerBed) -> None:
    bed.fast_path = FastPath(bed.broker, has_pulls=False)
    client = bed.connect()
    bed.broker.tables.groups.find_or_create("plain-consumers", may_create=True)
    client.connection.data_received(encode_command(common_pull("TopicA", 0, 0)))
    await client.replied()
    assert ways(bed) == (0, 0, 0, 1)


async def test_large_replies_stop_the_fast_path_until_they_are_read(bed: BrokerBed) -> None:
    client = bed.connect()
    bed.broker.tables.groups.find_or_create("plain-consumers", may_create=True)
    stream = b"".join(encode_command(common_pull("TopicA", 0, 0, opaque=each)) for each in range(9))
    frames = FrameDecoder().whole(stream)
    replies: list[bytes] = []
    size = bed.fast_path.take(client.connection, frames, replies, 1_000)
    assert 1_000 <= size == sum(map(len, replies)) < 2_000
    assert 0 < frames.position < frames.end


async def test_how_many_went_on_the_fast_path_is_a_runtime_value(bed: BrokerBed) -> None:
    client = bed.connect()
    client.connection.data_received(sends(1, 2, 3))
    for _ in range(3):
        await client.replied()
    reply = await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO, NoFields())
    assert b'"fastSends":"3"' in reply.body
    assert b'"slowSends":"0"' in reply.body


# --- sync flush ---


async def test_with_sync_flush_replies_wait_for_the_disk(sync_bed: BrokerBed) -> None:
    client = sync_bed.connect()
    client.connection.data_received(sends(1, 2, 3))
    assert ways(sync_bed) == (3, 0, 0, 0)
    assert client.connection.deferred_count == 3
    sync_disk(sync_bed)
    assert [(await client.replied()).opaque for _ in range(3)] == [1, 2, 3]
    assert client.connection.deferred_count == 0


async def test_what_is_not_safe_yet_is_not_pulled(sync_bed: BrokerBed) -> None:
    client = sync_bed.connect()
    sync_bed.broker.tables.groups.find_or_create("plain-consumers", may_create=True)
    pull = encode_command(common_pull("TopicA", 0, 1, wait_ms=15_000, opaque=9))
    client.connection.data_received(sends(1) + pull)
    assert sync_bed.waiting_pull_count == 1
    sync_disk(sync_bed)
    assert {(await client.replied()).opaque for _ in range(2)} == {1, 9}


async def test_every_send_of_a_wake_up_counts_against_the_limit(sync_bed: BrokerBed) -> None:
    client = sync_bed.connect(ConnectionLimits(deferred_count_max=3))
    client.connection.data_received(sends(1, 2, 3, 4))
    refused = await client.replied()
    assert (refused.code, refused.opaque) == (ResponseCode.SYSTEM_BUSY, 4)
    assert ways(sync_bed) == (3, 1, 0, 0)
    sync_disk(sync_bed)
    assert [(await client.replied()).opaque for _ in range(3)] == [1, 2, 3]
    client.connection.data_received(sends(5))
    assert ways(sync_bed) == (4, 1, 0, 0)


@pytest.mark.slow
async def test_a_disk_that_is_late_is_reported_to_each(sync_bed: BrokerBed) -> None:
    client, probe = sync_bed.connect(), sync_bed.connect()
    client.connection.data_received(sends(1, 2))
    await until_late(sync_bed.broker.messages.acks, sync_bed.clock, probe)
    replies = [await client.replied() for _ in range(2)]
    assert [each.opaque for each in replies] == [1, 2]
    assert {each.code for each in replies} == {ResponseCode.FLUSH_DISK_TIMEOUT}
    # It says where the message lies, for it may still get there.
    offsets = [read_header(SendMessageReplyHeader, each.fields).queue_offset for each in replies]
    assert offsets == [1, 2]
    assert client.connection.deferred_count == 0


async def test_a_disk_that_has_failed_is_reported_to_each(sync_bed: BrokerBed) -> None:
    client = sync_bed.connect()
    client.connection.data_received(sends(1, 2))
    sync_bed.broker.messages.acks.flush_failed(SyncFailed("broken"))
    replies = [await client.replied() for _ in range(2)]
    assert [each.opaque for each in replies] == [1, 2]
    assert {each.code for each in replies} == {ResponseCode.SERVICE_NOT_AVAILABLE}
    assert client.connection.deferred_count == 0


async def test_a_client_that_is_gone_does_not_delay_others(sync_bed: BrokerBed) -> None:
    leaving, staying = sync_bed.connect(), sync_bed.connect()
    leaving.connection.data_received(sends(1))
    staying.connection.data_received(sends(2))
    leaving.leave()
    sync_disk(sync_bed)
    assert (await staying.replied()).opaque == 2


async def test_a_send_that_does_not_want_to_wait_is_left_to_the_handler(
    sync_bed: BrokerBed,
) -> None:
    client = sync_bed.connect()
    fields = send_fields("TopicA", "0", "WAIT\x01false")
    client.connection.data_received(frame_of(command(310, fields, 1), b"a"))
    assert (await client.replied()).code == ResponseCode.SUCCESS
    assert ways(sync_bed) == (0, 1, 0, 0)


@pytest.mark.parametrize("has_fast_path", [True, False])
# A file takes two before Python 3.13: one of them for its mapping.
@pytest.mark.parametrize("left_count", [0] if sys.version_info >= (3, 13) else [0, 1])
async def test_a_pull_that_finds_no_descriptor_left_may_try_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, has_fast_path: bool, left_count: int
) -> None:
    async with broker_bed(tmp_path) as bed:
        with_topic(bed)
        log = log_of(bed.broker.store)
        while len(log.files) < 3:
            bed.put(b"1", topic="TopicA", queue_id=0)
        client = BedClient(50_000)
        bed.attach(client, DEFAULT_LIMITS, has_fast_path=has_fast_path)
        client.send(common_pull("TopicA", 0, 0))  # Makes the group, which is never plain.
        await client.replied()
        log.files[0].close()
        with few_descriptors_left(left_count):
            for opaque in range(3):
                client.send(common_pull("TopicA", 0, 0, opaque=opaque))
                refusal = await client.replied()
                assert (refusal.code, refusal.opaque) == (ResponseCode.SYSTEM_BUSY, opaque)
                assert "retry later" in str(refusal.remark)
            # What lies in files that are open is there for everybody.
            client.send(common_pull("TopicA", 0, bed.broker.store.max_offset("TopicA", 0) - 1))
            assert (await client.replied()).code == ResponseCode.SUCCESS
        client.send(common_pull("TopicA", 0, 0))
        reply = await client.replied()
        assert [each.body for each in split_records(reply.body)][:2] == [b"0", b"1"]
        assert "ulimit -n" in caplog.text
        assert "Traceback" not in caplog.text
