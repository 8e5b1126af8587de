"""What clients and operators ask about transactions, and what they are refused."""

import asyncio
import errno
import os
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from roquet.broker.settings.config import BrokerRole
from roquet.broker.transactions.check_back import check_transactions
from roquet.protocol.codes import CommandFlag, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.messages import (
    EndTransactionHeader,
    ResumeCheckHeader,
)
from roquet.store.config import FlushMode
from roquet.store.errors import SyncFailed
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.golden_frames import golden_frames
from tests.support.late_disk import stop_disk, sync_disk, until_late
from tests.support.quick_disk import QuickDisk
from tests.support.stores import messages, small_config
from tests.support.transactional import (
    COMMIT,
    GIVEN_UP_TOPIC,
    GROUP,
    ROLLBACK,
    UNKNOWN,
    Half,
    asked_about,
    begin,
    delivered,
    end,
    half_header,
    halves,
    over,
)


async def given_up_message_id(bed: BrokerBed, client: BedClient) -> str:
    """The offset id of a half message without an answer."""
    await begin(bed, client, "a")
    bed.clock.advance(73 * 3600)
    await check_transactions(bed.broker)
    (message,) = messages(bed.broker.store, GIVEN_UP_TOPIC)
    return message.offset_id


# --- the end (37) ---


async def test_the_end_needs_no_answer(bed: BrokerBed, client: BedClient) -> None:
    half = await begin(bed, client, "a")
    header = EndTransactionHeader(
        producer_group=GROUP,
        tran_state_table_offset=half.queue_offset,
        commit_log_offset=half.physical_offset,
        commit_or_rollback=COMMIT,
        msg_id="a",
        from_transaction_check=True,
    )
    flag = int(CommandFlag.ONEWAY)
    client.send(Command(RequestCode.END_TRANSACTION, 99, flag, fields=fields_of(header)))
    assert delivered(bed) == [b"a"]
    # The next reply is to the next request, not to that one.
    assert (await end(client, half, UNKNOWN)).code == ResponseCode.SUCCESS


@pytest.mark.parametrize("outcome", [UNKNOWN, 4, 99])
async def test_an_end_that_is_none_changes_nothing(
    bed: BrokerBed, client: BedClient, outcome: int
) -> None:
    half = await begin(bed, client, "a")
    assert (await end(client, half, outcome)).code == ResponseCode.SUCCESS
    assert (delivered(bed), over(bed)) == ([], [])


async def test_no_group_ends_the_transaction_of_another(bed: BrokerBed, client: BedClient) -> None:
    half = await begin(bed, client, "a")
    reply = await end(client, half, COMMIT, group="thieves")
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert delivered(bed) == []


async def test_offset_and_place_have_to_belong_together(bed: BrokerBed, client: BedClient) -> None:
    first = await begin(bed, client, "a")
    second = await begin(bed, client, "b")
    reply = await end(client, Half(first.queue_offset, second.physical_offset), COMMIT)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert delivered(bed) == []


@pytest.mark.parametrize("place", [-1, 3, 10**9])
async def test_where_no_message_starts_no_transaction_ends(
    bed: BrokerBed, client: BedClient, place: int
) -> None:
    await begin(bed, client, "a")
    assert (await end(client, Half(0, place), COMMIT)).code == ResponseCode.SYSTEM_ERROR
    assert delivered(bed) == []


async def test_only_a_half_message_can_be_committed(bed: BrokerBed, client: BedClient) -> None:
    # A plain message may name any group, and any topic as the one it belongs to.
    appended = bed.put(properties={"PGROUP": GROUP, "REAL_TOPIC": "TopicA", "REAL_QID": "1"})
    reply = await end(client, Half(appended.queue_offset, appended.physical_offset), COMMIT)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert delivered(bed) == []


async def test_a_slave_ends_no_transaction(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, role=BrokerRole.SLAVE, broker_id=1) as bed:
        reply = await end(bed.connect(), Half(0, 0), COMMIT)
        assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE


async def test_recorded_ends_are_understood(bed: BrokerBed, client: BedClient) -> None:
    """All that Java producers sent: there is no such message here, and nothing else is wrong."""
    recorded = [
        frame for frame in golden_frames() if frame.request_code == 37 and frame.kind != "response"
    ]
    assert len(recorded) > 30
    for frame in recorded:
        command = frame.command
        client.send(Command(37, 7, 0, command.version, command.language, None, command.fields))
        reply = await client.replied()
        assert reply.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.SUCCESS), frame.place
        assert "internal" not in (reply.remark or ""), frame.place


@pytest.mark.parametrize("outcome", [COMMIT, ROLLBACK])
async def test_with_sync_flush_an_end_is_acknowledged_when_it_is_on_disk(
    tmp_path: Path, outcome: int
) -> None:
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=config) as bed:
        client = bed.connect()
        half = await begin(bed, client, "a")
        before = bed.broker.store.log_end
        assert (await end(client, half, outcome)).code == ResponseCode.SUCCESS
        assert bed.broker.store.synced_end > before


class DiskThatFailsOnce(QuickDisk):
    fails_next = False

    def sync(self, descriptor: int) -> None:
        if self.fails_next:
            self.fails_next = False
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        super().sync(descriptor)


async def test_with_sync_flush_no_end_is_acknowledged_that_the_disk_has_not(
    tmp_path: Path,
) -> None:
    disk = DiskThatFailsOnce()
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with AsyncExitStack() as stack:
        bed = await stack.enter_async_context(broker_bed(tmp_path, disk=disk, store=config))
        client = bed.connect()
        half = await begin(bed, client, "a")
        disk.fails_next = True
        reply = await end(client, half, COMMIT)
        assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
        with pytest.raises(SyncFailed):
            await stack.aclose()


@pytest.mark.slow
async def test_with_sync_flush_an_end_that_is_late_on_disk_is_still_waited_for(
    tmp_path: Path,
) -> None:
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=config) as bed:
        client = bed.connect()
        half = await begin(bed, client, "a")
        stop_disk(bed)
        ending = asyncio.create_task(end(client, half, COMMIT))
        await asyncio.sleep(0)
        await until_late(bed.broker.messages.acks, bed.clock, bed.connect())
        assert not ending.done()
        sync_disk(bed)
        assert (await ending).code == ResponseCode.SUCCESS


# --- asking again (323) ---


async def test_what_was_given_up_is_asked_about_again_when_an_operator_wants_it(
    bed: BrokerBed, client: BedClient
) -> None:
    await client.beat("one", sends=[GROUP])
    message_id = await given_up_message_id(bed, client)
    reply = await client.ask(
        RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHeader(msg_id=message_id)
    )
    assert reply.code == ResponseCode.SUCCESS
    half = halves(bed)[-1]
    assert (half.body, half.properties["TRANSACTION_CHECK_TIMES"]) == (b"a", "0")


async def test_what_was_resumed_can_be_committed_once(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, transaction_check_count_max=1) as bed:
        client = bed.connect()
        await client.beat("one", sends=[GROUP])
        first = await begin(bed, client, "a")
        for _ in range(2):
            bed.clock.advance(60)
            await check_transactions(bed.broker)
        await client.all_asked()
        (message,) = messages(bed.broker.store, GIVEN_UP_TOPIC)
        await client.ask(
            RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHeader(msg_id=message.offset_id)
        )
        bed.clock.advance(60)
        await check_transactions(bed.broker)
        (question,) = await client.all_asked()
        await end(client, asked_about(question), COMMIT)
        await end(client, first, COMMIT)
        assert delivered(bed) == [b"a"]


@pytest.mark.parametrize("message_id", [None, "", "7F000001", "x", "7F00000100002A9F" + "0" * 16])
async def test_an_id_without_a_half_message_is_refused(
    bed: BrokerBed, client: BedClient, message_id: str | None
) -> None:
    bed.put()  # a plain message at the start of the log
    reply = await client.ask(
        RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHeader(msg_id=message_id)
    )
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert halves(bed) == []


async def test_a_half_message_that_belongs_nowhere_is_not_resumed(
    bed: BrokerBed, client: BedClient
) -> None:
    bed.put(topic=GIVEN_UP_TOPIC)
    message_id = messages(bed.broker.store, GIVEN_UP_TOPIC)[0].offset_id
    reply = await client.ask(
        RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHeader(msg_id=message_id)
    )
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert halves(bed) == []


async def test_a_slave_resumes_nothing(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, role=BrokerRole.SLAVE, broker_id=1) as bed:
        reply = await bed.connect().ask(
            RequestCode.RESUME_CHECK_HALF_MESSAGE, ResumeCheckHeader(msg_id="7F000001")
        )
        assert reply.code == ResponseCode.SYSTEM_ERROR


# --- sends ---


async def test_a_retry_with_the_mark_of_its_transaction_is_no_transaction(
    bed: BrokerBed, client: BedClient
) -> None:
    header = half_header(bed, "a", sys_flag=0, reconsume_times=1, properties={"DELAY": "3"})
    reply = await client.ask(RequestCode.SEND_MESSAGE_V2, header, b"a")
    assert reply.code == ResponseCode.SUCCESS
    assert halves(bed) == []


async def test_with_sync_flush_a_half_message_is_on_disk_when_its_sender_hears_of_it(
    tmp_path: Path,
) -> None:
    """Also when the sender does not wait for that: its next request is about it."""
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=config) as bed:
        client = bed.connect()
        half = await begin(bed, client, "a", properties={"WAIT": "false"})
        assert (await end(client, half, COMMIT)).code == ResponseCode.SUCCESS
        assert delivered(bed) == [b"a"]
