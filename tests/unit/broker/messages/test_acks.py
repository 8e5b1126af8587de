"""Senders that wait until what they stored is safe, and what they get when it is not."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from threading import Thread

import pytest

from roquet.broker.messages.acks import AckQueue, OnTimeout
from roquet.broker.replication.in_sync import Replica
from roquet.broker.replication.replica_progress import EVERYTHING, ReplicaProgress, Slave
from roquet.net.errors import Refused
from roquet.net.limits import DEFAULT_LIMITS, ConnectionLimits
from roquet.net.router import DEFERRED, Reply, ReplyDeferred, Request, encode_answer
from roquet.protocol.codes import CommandFlag, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import NoFields, field_texts, read_header
from roquet.protocol.frame import SERIALIZER_BINARY, SERIALIZER_JSON
from roquet.protocol.headers.groups import OffsetReplyHeader
from roquet.store.errors import SyncFailed
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock
from tests.support.late_disk import until_late

TIMEOUT_S = 5.0
REPLY = Reply(header=OffsetReplyHeader(offset=7))
EVERY_REPLY = [
    OnTimeout.REPORT,
    OnTimeout.EXPLAIN,
    OnTimeout.REFUSE,
    OnTimeout.IGNORE,
    OnTimeout.KEEP_WAITING,
]


class Line:
    """A acks whose disk does what the test says, and a client that waits for replies."""

    def __init__(
        self, bed: BrokerBed, limits: ConnectionLimits = DEFAULT_LIMITS, *, is_awaited: bool = True
    ) -> None:
        self.client = bed.connect(limits)
        self.probe = bed.connect()
        self.clock = FakeClock()
        self.called: list[str] = []
        self.safe_ends: list[int] = []
        self.acks = AckQueue(
            self.clock, TIMEOUT_S, is_awaited=is_awaited, on_safe=self.safe_ends.append
        )

    def when_safe(self, name: str, end: int, late: OnTimeout = OnTimeout.KEEP_WAITING) -> None:
        self.acks.when_safe(end, lambda: self.called.append(name), late)

    def reply(
        self, end: int, late: OnTimeout, opaque: int = 1, serializer: int = SERIALIZER_JSON
    ) -> Reply | ReplyDeferred | bytes:
        return self.acks.reply_when_safe(self.request(opaque, serializer), end, REPLY, late)

    def request(self, opaque: int = 1, serializer: int = SERIALIZER_JSON) -> Request[NoFields]:
        command = Command(RequestCode.SEND_MESSAGE, opaque, serializer=serializer)
        return Request(NoFields(), command, self.client.connection)

    async def deadline(self) -> None:
        """Returns when the deadline of everybody is over, and they know it."""
        await until_late(self.acks, self.clock, self.probe)


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path) as bed:
        yield bed


@pytest.fixture
async def line(bed: BrokerBed) -> AsyncIterator[Line]:
    line = Line(bed)
    yield line
    line.acks.close()


def in_flush_thread(acks: AckQueue, *ends: int) -> None:
    def run() -> None:
        for end in ends:
            acks.flushed(end)

    thread = Thread(target=run)
    thread.start()
    thread.join()


def stored_frames(line: Line, *opaques: int) -> bytes:
    """Replies to sends that were stored."""
    answers = [encode_answer(line.request(opaque).command, REPLY) for opaque in opaques]
    return b"".join(filter(None, answers))


# --- safe ---


async def test_one_round_releases_all_that_it_covers_in_their_order(line: Line) -> None:
    for name, end in (("a", 100), ("b", 200), ("c", 300)):
        line.when_safe(name, end)
    in_flush_thread(line.acks, 250)
    await eventually(lambda: line.called == ["a", "b"])
    in_flush_thread(line.acks, 300)
    await eventually(lambda: line.called == ["a", "b", "c"])


@pytest.mark.parametrize("serializer", [SERIALIZER_JSON, SERIALIZER_BINARY])
@pytest.mark.parametrize("late", EVERY_REPLY)
async def test_a_reply_goes_out_as_it_is_when_what_it_reports_is_safe(
    line: Line, late: OnTimeout, serializer: int
) -> None:
    assert line.reply(100, late, serializer=serializer) is DEFERRED
    assert line.client.connection.deferred_count == 1
    in_flush_thread(line.acks, 100)
    reply = await line.client.replied()
    assert (reply.code, reply.opaque, reply.serializer) == (ResponseCode.SUCCESS, 1, serializer)
    assert read_header(OffsetReplyHeader, reply.fields).offset == 7
    assert line.client.connection.deferred_count == 0


async def test_followers_of_the_log_are_notified_of_every_round_even_without_waiters(
    line: Line,
) -> None:
    in_flush_thread(line.acks, 100)
    await eventually(lambda: line.safe_ends == [100])
    in_flush_thread(line.acks, 250)
    await eventually(lambda: line.safe_ends == [100, 250])


async def test_replies_to_many_sends_go_out_when_the_last_of_them_is_safe(line: Line) -> None:
    frames = stored_frames(line, 1, 2, 3)
    line.acks.send_when_safe(line.client.connection, 300, frames, 3)
    assert line.client.connection.deferred_count == 3
    in_flush_thread(line.acks, 299)
    await eventually(lambda: line.safe_ends == [299])
    assert line.client.connection.deferred_count == 3
    in_flush_thread(line.acks, 300)
    replies = [await line.client.replied() for _ in range(3)]
    assert [(each.code, each.opaque) for each in replies] == [(0, 1), (0, 2), (0, 3)]
    assert line.client.connection.deferred_count == 0


@pytest.mark.slow
async def test_each_of_many_sends_gets_an_error_when_the_disk_is_late(line: Line) -> None:
    line.acks.send_when_safe(line.client.connection, 300, stored_frames(line, 1, 2), 2)
    await line.deadline()
    for opaque in (1, 2):
        reply = await line.client.replied()
        assert (reply.code, reply.opaque) == (ResponseCode.FLUSH_DISK_TIMEOUT, opaque)
        assert read_header(OffsetReplyHeader, reply.fields).offset == 7
    assert line.client.connection.deferred_count == 0


async def test_each_of_many_sends_gets_an_error_when_the_disk_has_failed(line: Line) -> None:
    line.acks.send_when_safe(line.client.connection, 300, stored_frames(line, 1, 2), 2)
    line.acks.flush_failed(SyncFailed("broken"))
    for opaque in (1, 2):
        reply = await line.client.replied()
        assert (reply.code, reply.opaque) == (ResponseCode.SERVICE_NOT_AVAILABLE, opaque)
        assert (reply.remark, field_texts(reply.fields)) == ("the disk has failed", {})
    assert line.client.connection.deferred_count == 0


async def test_the_flush_thread_answers_no_waiter_itself(line: Line) -> None:
    line.when_safe("a", 100)
    in_flush_thread(line.acks, 100, 150, 200)
    assert line.called == []
    await eventually(lambda: line.called == ["a"])


async def test_a_round_during_the_hand_over_is_not_lost(line: Line) -> None:
    line.acks.when_safe(100, lambda: in_flush_thread(line.acks, 200))
    line.when_safe("b", 200)
    in_flush_thread(line.acks, 100)
    await eventually(lambda: line.called == ["b"])


async def test_what_is_safe_already_is_not_waited_for(line: Line) -> None:
    in_flush_thread(line.acks, 100)
    await eventually(lambda: line.safe_ends == [100])
    line.when_safe("a", 100)
    assert line.called == ["a"]
    assert line.reply(100, OnTimeout.REPORT) is REPLY


@pytest.mark.parametrize("late", EVERY_REPLY)
async def test_with_async_flush_everything_is_safe_at_once(bed: BrokerBed, late: OnTimeout) -> None:
    line = Line(bed, is_awaited=False)
    line.when_safe("a", 100)
    assert line.called == ["a"]
    assert line.reply(100, late) is REPLY


async def test_a_one_way_request_leaves_nothing_behind(line: Line) -> None:
    request = line.request()
    request.command.flag = int(CommandFlag.ONEWAY)
    answer = line.acks.reply_when_safe(request, 100, REPLY, OnTimeout.REPORT)
    assert encode_answer(request.command, answer) is None
    assert line.client.connection.deferred_count == 0


async def test_a_client_that_is_gone_gets_nothing_and_stops_nothing_else(
    line: Line, bed: BrokerBed
) -> None:
    line.reply(100, OnTimeout.REPORT)
    line.client.leave()
    line.client = bed.connect()
    line.reply(100, OnTimeout.REPORT, opaque=2)
    in_flush_thread(line.acks, 100)
    assert (await line.client.replied()).opaque == 2


async def test_replies_that_wait_count_against_the_limit_of_their_connection(
    bed: BrokerBed,
) -> None:
    line = Line(bed, ConnectionLimits(deferred_count_max=1))
    line.acks.check_room(line.request())
    line.reply(100, OnTimeout.REPORT)
    with pytest.raises(Refused, match="OVERLOAD"):
        line.acks.check_room(line.request())
    line.acks.close()


# --- late ---


@pytest.mark.parametrize("serializer", [SERIALIZER_JSON, SERIALIZER_BINARY])
@pytest.mark.slow
async def test_late_a_send_hears_of_the_timeout_and_where_its_message_is(
    line: Line, serializer: int
) -> None:
    line.reply(100, OnTimeout.REPORT, serializer=serializer)
    line.clock.advance(TIMEOUT_S)
    reply = await line.client.replied()
    assert (reply.code, reply.opaque, reply.serializer) == (
        ResponseCode.FLUSH_DISK_TIMEOUT,
        1,
        serializer,
    )
    assert read_header(OffsetReplyHeader, reply.fields).offset == 7


@pytest.mark.slow
async def test_late_a_send_back_is_an_error(line: Line) -> None:
    line.reply(100, OnTimeout.REFUSE)
    line.clock.advance(TIMEOUT_S)
    reply = await line.client.replied()
    assert (reply.code, reply.opaque) == (ResponseCode.SYSTEM_ERROR, 1)
    assert "not on disk in time" in (reply.remark or "")


@pytest.mark.slow
async def test_late_the_copy_of_a_reply_does_not_matter(line: Line) -> None:
    line.reply(100, OnTimeout.IGNORE)
    line.clock.advance(TIMEOUT_S)
    assert (await line.client.replied()).code == ResponseCode.SUCCESS


@pytest.mark.slow
async def test_late_the_end_of_a_transaction_is_still_waited_for(line: Line) -> None:
    line.reply(100, OnTimeout.KEEP_WAITING)
    await line.deadline()
    assert line.client.connection.deferred_count == 1
    in_flush_thread(line.acks, 100)
    assert (await line.client.replied()).code == ResponseCode.SUCCESS


@pytest.mark.slow
async def test_a_late_delivery_task_is_woken_late(line: Line) -> None:
    line.when_safe("a", 100)
    line.when_safe("b", 200)
    await line.deadline()
    assert line.called == []
    in_flush_thread(line.acks, 100)
    await eventually(lambda: line.called == ["a"])
    in_flush_thread(line.acks, 200)
    await eventually(lambda: line.called == ["a", "b"])


@pytest.mark.slow
async def test_late_a_producer_is_not_asked_any_more(line: Line) -> None:
    line.when_safe("a", 100, OnTimeout.DROP)
    await line.deadline()
    in_flush_thread(line.acks, 100)
    await eventually(lambda: line.safe_ends == [100])
    assert line.called == []


@pytest.mark.slow
async def test_no_waiter_is_late_before_its_own_deadline(line: Line) -> None:
    line.reply(100, OnTimeout.REPORT)
    line.clock.advance(TIMEOUT_S - 1)
    line.reply(200, OnTimeout.REPORT, opaque=2)
    line.clock.advance(2)
    assert (await line.client.replied()).code == ResponseCode.FLUSH_DISK_TIMEOUT
    in_flush_thread(line.acks, 200)
    reply = await line.client.replied()
    assert (reply.code, reply.opaque) == (ResponseCode.SUCCESS, 2)


# --- failed ---


@pytest.mark.parametrize("late", EVERY_REPLY)
async def test_after_a_failed_sync_nothing_is_acknowledged_ever_again(
    line: Line, late: OnTimeout, caplog: pytest.LogCaptureFixture
) -> None:
    is_send_back = late is OnTimeout.REFUSE
    code = ResponseCode.SYSTEM_ERROR if is_send_back else ResponseCode.SERVICE_NOT_AVAILABLE
    line.reply(100, late)
    line.acks.flush_failed(SyncFailed("input/output error"))
    reply = await line.client.replied()
    assert (reply.code, reply.opaque) == (code, 1)
    assert line.client.connection.deferred_count == 0
    answer = line.reply(200, late)
    assert isinstance(answer, Reply)
    assert answer.code == code
    assert line.acks.has_failed.is_set()
    assert "input/output error" in caplog.text


@pytest.mark.parametrize("late", [OnTimeout.KEEP_WAITING, OnTimeout.DROP])
async def test_after_a_failed_sync_nothing_that_waits_is_done(line: Line, late: OnTimeout) -> None:
    line.when_safe("a", 100, late)
    line.acks.flush_failed(SyncFailed("input/output error"))
    await line.acks.has_failed.wait()
    line.when_safe("b", 200, late)
    in_flush_thread(line.acks, 200)
    await eventually(lambda: line.safe_ends == [200])
    assert line.called == []


@pytest.mark.slow
async def test_a_client_that_waits_on_gets_the_failure_too(line: Line) -> None:
    line.reply(100, OnTimeout.KEEP_WAITING)
    await line.deadline()
    line.acks.flush_failed(SyncFailed("input/output error"))
    assert (await line.client.replied()).code == ResponseCode.SERVICE_NOT_AVAILABLE


@pytest.mark.slow
async def test_a_closed_queue_leaves_no_timer_and_no_waiter(line: Line) -> None:
    line.when_safe("a", 100)
    line.acks.close()
    line.clock.advance(10)
    in_flush_thread(line.acks, 100)
    await asyncio.sleep(0.6)  # longer than a sweep takes to come
    assert line.called == []


# --- copies ---


class CopiedLine(Line):
    """The same for a broker that waits for a slave, and for the disk only if it says so."""

    def __init__(self, bed: BrokerBed, *, is_disk_awaited: bool = False) -> None:
        super().__init__(bed, is_awaited=is_disk_awaited)
        self.log_end = 1000
        self.wake_count = 0
        self.copies = ReplicaProgress(10_000, lambda: self.log_end)
        self.acks = AckQueue(
            self.clock,
            TIMEOUT_S,
            is_awaited=is_disk_awaited,
            on_safe=self.safe_ends.append,
            replicas=self.copies,
            replica_timeout_s=TIMEOUT_S - 2,
            on_replica_awaited=self.wake,
        )

    def wake(self) -> None:
        self.wake_count += 1

    def join(self, confirmed_end: int = 0) -> Slave:
        slave = Slave("somewhere:1", confirmed_end, confirmed_end)
        self.copies.join(slave)
        return slave

    async def outcome(self) -> tuple[int, int]:
        reply = await self.client.replied()
        return reply.code, reply.opaque


@pytest.fixture
async def copied(bed: BrokerBed) -> AsyncIterator[CopiedLine]:
    line = CopiedLine(bed)
    yield line
    line.acks.close()


async def test_a_send_waits_for_a_slave_that_is_woken(copied: CopiedLine) -> None:
    slave = copied.join()
    assert copied.reply(100, OnTimeout.REPORT) is DEFERRED
    await eventually(lambda: copied.wake_count)
    copied.copies.confirm(slave, 99)
    await asyncio.sleep(0)
    assert copied.client.connection.deferred_count == 1
    copied.copies.confirm(slave, 100)
    assert await copied.outcome() == (ResponseCode.SUCCESS, 1)


async def test_without_a_slave_a_send_hears_so_at_once(copied: CopiedLine) -> None:
    copied.acks.send_when_safe(copied.client.connection, 300, stored_frames(copied, 1, 2), 2)
    assert await copied.outcome() == (ResponseCode.SLAVE_NOT_AVAILABLE, 1)
    assert await copied.outcome() == (ResponseCode.SLAVE_NOT_AVAILABLE, 2)
    assert copied.acks.late_counts == {ResponseCode.SLAVE_NOT_AVAILABLE: 2}


async def test_without_a_slave_a_change_is_reported_as_local(copied: CopiedLine) -> None:
    copied.reply(100, OnTimeout.EXPLAIN)
    reply = await copied.client.replied()
    assert reply.code == ResponseCode.SLAVE_NOT_AVAILABLE
    assert "done at this broker, but no replica is there" in (reply.remark or "")


async def test_a_slave_that_is_too_far_behind_is_none(copied: CopiedLine) -> None:
    copied.join()
    copied.reply(10_000, OnTimeout.REPORT)
    assert await copied.outcome() == (ResponseCode.SLAVE_NOT_AVAILABLE, 1)


async def test_a_slave_that_leaves_is_waited_for_no_longer(copied: CopiedLine) -> None:
    slave = copied.join()
    copied.reply(100, OnTimeout.REPORT)
    await eventually(lambda: copied.wake_count)
    copied.copies.leave(slave)
    assert await copied.outcome() == (ResponseCode.SLAVE_NOT_AVAILABLE, 1)


@pytest.mark.slow
async def test_a_send_hears_when_a_slave_takes_too_long(copied: CopiedLine) -> None:
    copied.join()
    copied.reply(100, OnTimeout.REPORT)
    copied.clock.advance(TIMEOUT_S - 2)
    assert await copied.outcome() == (ResponseCode.FLUSH_SLAVE_TIMEOUT, 1)


async def test_without_a_slave_a_send_back_is_an_error_and_others_continue(
    copied: CopiedLine,
) -> None:
    copied.reply(100, OnTimeout.REFUSE)
    copied.reply(200, OnTimeout.IGNORE, opaque=2)
    copied.reply(300, OnTimeout.KEEP_WAITING, opaque=3)
    copied.when_safe("a", 400)
    copied.when_safe("b", 500, OnTimeout.DROP)
    assert await copied.outcome() == (ResponseCode.SYSTEM_ERROR, 1)
    assert await copied.outcome() == (ResponseCode.SUCCESS, 2)
    assert await copied.outcome() == (ResponseCode.SUCCESS, 3)
    await eventually(lambda: copied.called == ["a", "b"])


async def test_both_the_disk_and_a_slave_have_to_have_it(bed: BrokerBed) -> None:
    line = CopiedLine(bed, is_disk_awaited=True)
    slave = line.join()
    line.reply(100, OnTimeout.REPORT)
    line.reply(200, OnTimeout.REPORT, opaque=2)
    line.copies.confirm(slave, 200)
    await asyncio.sleep(0)
    assert line.client.connection.deferred_count == 2
    in_flush_thread(line.acks, 100)
    assert await line.outcome() == (ResponseCode.SUCCESS, 1)
    assert line.client.connection.deferred_count == 1
    line.copies.leave(slave)
    in_flush_thread(line.acks, 200)
    assert await line.outcome() == (ResponseCode.SUCCESS, 2)
    line.acks.close()


async def test_without_a_slave_the_disk_is_still_waited_for(bed: BrokerBed) -> None:
    line = CopiedLine(bed, is_disk_awaited=True)
    line.reply(100, OnTimeout.REPORT)
    await asyncio.sleep(0)
    assert line.client.connection.deferred_count == 1
    in_flush_thread(line.acks, 100)
    assert await line.outcome() == (ResponseCode.SLAVE_NOT_AVAILABLE, 1)
    line.acks.close()


async def test_readers_see_what_a_slave_has_and_everything_without_one(
    copied: CopiedLine,
) -> None:
    slave = copied.join(900)
    await eventually(lambda: copied.safe_ends == [1000])  # What was readable before stays so.
    copied.log_end = 1500
    copied.copies.confirm(slave, 1200)
    await eventually(lambda: copied.safe_ends[-1] == 1200)
    copied.copies.leave(slave)
    await eventually(lambda: copied.safe_ends[-1] == EVERYTHING)


async def test_a_broker_that_may_not_be_master_any_more_acknowledges_nothing(
    bed: BrokerBed,
) -> None:
    is_master = True
    copies = ReplicaProgress(1000, lambda: 100, slaves_needed=0)
    copies.lead(frozenset({Replica(1, "store")}), lambda: is_master)
    line = Line(bed)
    acks = line.acks = AckQueue(
        line.clock, TIMEOUT_S, is_awaited=False, replicas=copies, replica_timeout_s=1.0
    )
    try:
        is_master = False
        line.when_safe("late", 50)
        line.when_safe("ignored", 60, OnTimeout.IGNORE)
        line.clock.advance(100.0)
        # Both looks at the line: after a change, and when the time is over.
        acks._release_safe()
        acks._sweep()
        assert line.called == []
        is_master = True
        acks._release_safe()
        assert line.called == ["late", "ignored"]
    finally:
        acks.close()


@pytest.mark.parametrize(
    ("late", "code"),
    [
        (OnTimeout.REPORT, ResponseCode.FLUSH_DISK_TIMEOUT),
        (OnTimeout.REFUSE, ResponseCode.FLUSH_DISK_TIMEOUT),
        (OnTimeout.IGNORE, ResponseCode.SUCCESS),
    ],
)
async def test_an_outcome_is_reported_when_the_time_is_over(
    line: Line, late: OnTimeout, code: ResponseCode
) -> None:
    outcomes: list[ResponseCode] = []
    line.acks.when_settled(100, outcomes.append, late)
    await line.deadline()
    assert outcomes == [code]


async def test_an_outcome_is_success_once_the_disk_has_it(line: Line) -> None:
    outcomes: list[ResponseCode] = []
    line.acks.when_settled(100, outcomes.append, OnTimeout.REPORT)
    line.acks.flushed(100)
    await eventually(lambda: outcomes == [ResponseCode.SUCCESS])
    line.acks.when_settled(100, outcomes.append, OnTimeout.REPORT)
    assert outcomes == [ResponseCode.SUCCESS, ResponseCode.SUCCESS]


async def test_an_outcome_after_a_failed_sync_is_a_failure(line: Line) -> None:
    outcomes: list[ResponseCode] = []
    line.acks.when_settled(100, outcomes.append, OnTimeout.REPORT)
    line.acks.flush_failed(SyncFailed("broken"))
    await eventually(lambda: outcomes == [ResponseCode.SERVICE_NOT_AVAILABLE])
    line.acks.when_settled(200, outcomes.append, OnTimeout.REPORT)
    assert outcomes[1:] == [ResponseCode.SERVICE_NOT_AVAILABLE]
