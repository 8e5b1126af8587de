"""The journal of popped messages: its records, and what a start makes of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from roquet.broker.messages.appending import Messages, NewMessage, append_message
from roquet.broker.pop import journal as journal_module, redelivery as redelivery_module
from roquet.broker.pop.in_flight import PopKey, QueueOfGroup
from roquet.broker.pop.journal import PopJournal
from roquet.broker.pop.journal_writing import check_point_body
from roquet.broker.pop.redelivery import redeliver_due, redeliver_slice
from roquet.net.errors import Refused
from roquet.protocol.bodies.topics import TopicConfig
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.groups import ResetOffsetHeader
from roquet.protocol.headers.topics import DeleteTopicHeader
from roquet.protocol.messages.message import Property, StoredMessage
from roquet.protocol.messages.record import read_record
from roquet.store.appends import Appended
from tests.support.broker_bed import VERSION_5_5_0, BrokerBed, broker_bed
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock
from tests.support.popped import GROUP, TOPIC, ack, change, pop

JOURNAL = "rmq_sys_REVIVE_LOG_DefaultCluster"
QUEUE = QueueOfGroup(GROUP, TOPIC, 0)


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with opened(tmp_path) as bed:
        yield bed


@asynccontextmanager
async def opened(directory: Path, clock: FakeClock | None = None) -> AsyncIterator[BrokerBed]:
    async with broker_bed(directory, clock=clock) as bed:
        topic = TopicConfig(topic_name=TOPIC, read_queue_nums=1, write_queue_nums=1)
        bed.broker.tables.topics.update(topic)
        yield bed


def records(bed: BrokerBed) -> list[StoredMessage]:
    found = bed.broker.store.records(JOURNAL, 0, 0)
    return [read_record(record) for _, record in found]


async def test_records_have_the_form_of_apache(bed: BrokerBed) -> None:
    client = bed.connect()
    bed.put()
    bed.put()
    popped = await pop(client)
    await ack(client, popped.receipts[1])
    pop_ms = bed.clock.now_ms()
    check_point, acked = records(bed)
    assert (check_point.tags, acked.tags) == ("ck", "ack")
    # Theirs have a key, too, which would be filed, and by which nothing looks for them.
    assert not {Property.UNIQUE_KEY, Property.KEYS} & {*check_point.properties, *acked.properties}
    # Seen in the log of a broker of 5.5.0.
    assert check_point.body == (
        b'{"bm":0,"bn":"broker-a","c":"workers","d":[0,1],"it":10000,"n":2,"pt":%d,"q":0,'
        b'"reviveTime":%d,"ro":0,"so":0,"sp":false,"t":"TopicA"}' % (pop_ms, pop_ms + 10_000)
    )
    assert acked.body == (
        b'{"ao":1,"bn":"broker-a","c":"workers","pt":%d,"q":0,"so":0,"t":"TopicA"}' % pop_ms
    )
    assert check_point.properties["POP_NEXT"] == "2"


async def test_a_start_knows_what_is_out_and_what_was_acknowledged(tmp_path: Path) -> None:
    clock = FakeClock()
    async with opened(tmp_path, clock) as bed:
        client = bed.connect()
        for body in (b"a", b"b", b"c"):
            bed.put(body)
        popped = await pop(client)
        await ack(client, popped.receipts[0])
        await change(client, popped.receipts[1], 60_000)
        # As after a crash: the file of offsets has nothing of it.
        bed.broker.tables.offsets.forget_group(GROUP)
        again = PopJournal(
            bed.broker.store, bed.broker.tables.offsets, clock, bed.broker.waiting.pops._form
        )
        again.load()
        assert again.in_flight.counts == {QUEUE: 2}
        assert again.in_flight.next_due_ms == clock.now_ms() + 10_000
        assert bed.broker.tables.offsets.find(*QUEUE) == 3


@pytest.mark.parametrize("is_ordered", [False, True])
async def test_a_start_knows_what_is_out_for_ever(bed: BrokerBed, *, is_ordered: bool) -> None:
    client = bed.connect()
    bed.put()
    popped = await pop(client, invisible_time=2**63 - 1, order=is_ordered)
    journal = bed.broker.waiting.pops
    for _ in range(2):
        due_ms = journal.next_due_ms
        assert due_ms == bed.clock.now_ms() + 2**62
        journal.load()
        assert journal.next_due_ms == due_ms
        bed.clock.advance(1)
        await change(client, popped.receipts[0], 2**63 - 1)


async def test_a_restarted_broker_redelivers_at_the_old_time(tmp_path: Path) -> None:
    clock = FakeClock()
    async with opened(tmp_path, clock) as bed:
        bed.put(b"a")
        bed.put(b"b")
        popped = await pop(bed.connect())
        await ack(bed.connect(), popped.receipts[0])
    clock.advance(9)
    async with opened(tmp_path, clock) as bed:
        assert (await pop(bed.connect())).bodies == []
        clock.advance(1)
        redeliver_slice(bed.broker)
        assert (await pop(bed.connect())).bodies == [b"b"]


async def test_a_start_reads_nothing_that_is_closed(bed: BrokerBed) -> None:
    client = bed.connect()
    for _ in range(5):
        bed.put()
        await ack(client, (await pop(client)).receipts[0])
    bed.put()
    await pop(client)
    journal = bed.broker.waiting.pops
    journal.commit_progress(bed.broker.store.log_end)
    assert bed.broker.tables.offsets.pops.value.offset_table == {0: 9}
    # Where Apache looks for it: the last record that it need not read.
    assert bed.broker.tables.offsets.find("CID_RMQ_SYS_REVIVE_GROUP", JOURNAL, 0) == 9
    journal.load()
    assert journal.in_flight.oldest(0).place.offset == 10  # type: ignore[union-attr]


async def test_progress_is_not_ahead_of_what_is_safe(bed: BrokerBed) -> None:
    bed.put()
    client = bed.connect()
    await ack(client, (await pop(client)).receipts[0])
    journal = bed.broker.waiting.pops
    journal.commit_progress(bed.broker.store.log_end - 1)
    assert bed.broker.tables.offsets.pops.value.offset_table == {}
    journal.commit_progress(bed.broker.store.log_end)
    assert bed.broker.tables.offsets.pops.value.offset_table == {0: 1}


async def test_a_check_point_that_many_records_follow_is_written_again(
    bed: BrokerBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_module, "RECORD_COUNT_MAX", 4)
    client = bed.connect()
    bed.put(b"old a")
    bed.put(b"old b")
    old = await pop(client, invisible_time=3_600_000)
    await ack(client, old.receipts[1])
    for _ in range(3):
        bed.put()
        await ack(client, (await pop(client)).receipts[0])
    journal = bed.broker.waiting.pops
    assert journal.lag == 8
    journal.rewrite_stragglers()
    assert journal.lag == 1
    journal.commit_progress(bed.broker.store.log_end)
    journal.load()
    assert journal.in_flight.counts == {QUEUE: 1}
    assert journal.in_flight.next_due_ms == bed.clock.now_ms() + 3_600_000


async def test_offsets_that_the_table_has_already_are_not_set_back(bed: BrokerBed) -> None:
    client = bed.connect()
    bed.put()
    bed.put()
    await pop(client, max_msg_nums=1)
    bed.broker.tables.offsets.commit(*QUEUE, 2)
    bed.broker.waiting.pops.load()
    assert bed.broker.tables.offsets.find(*QUEUE) == 2


async def test_a_clock_that_is_set_moves_no_deadline(bed: BrokerBed) -> None:
    bed.put()
    await pop(bed.connect())
    bed.clock.jump(3_600)
    redeliver_slice(bed.broker)
    assert (
        bed.broker.waiting.pops.in_flight.next_due_ms == bed.broker.waiting.pops.steady_ms + 10_000
    )
    bed.clock.advance(10)
    redeliver_slice(bed.broker)
    assert bed.broker.waiting.pops.in_flight.count == 0


async def test_a_record_that_is_no_record_is_skipped(bed: BrokerBed) -> None:
    bed.put()
    await pop(bed.connect())
    bed.put(b"nonsense", topic=JOURNAL, properties={"TAGS": "ck"})
    bed.put(b"{}", topic=JOURNAL, properties={"TAGS": "ack"})
    bed.put(b"", topic=JOURNAL)
    bed.broker.waiting.pops.load()
    assert bed.broker.waiting.pops.in_flight.count == 1


async def test_acks_of_apache_that_wait_among_timers_are_waited_for(bed: BrokerBed) -> None:
    """A check point of Apache comes a second before its time, the acks at it."""
    bed.put()
    journal = bed.broker.waiting.pops
    now_ms = bed.clock.now_ms()
    key = PopKey(QUEUE, 0, now_ms - 59_000)
    check_point = check_point_body(journal._form, key, (0,), 60_000)
    body = msgspec.json.encode(check_point)
    timer = {"TAGS": "ck", Property.TIMER_OUT_MS: str(now_ms)}
    bed.put(body, topic=JOURNAL, queue_id=5, properties=timer)
    bed.clock.advance(2)
    journal.catch_up()
    redeliver_slice(bed.broker)
    assert journal.in_flight.counts == {QUEUE: 1}
    acked = b'{"ao":0,"bn":"broker-a","c":"%b","pt":%d,"q":0,"so":0,"t":"%b"}'
    body = acked % (GROUP.encode(), key.pop_time_ms, TOPIC.encode())
    bed.put(body, topic=JOURNAL, queue_id=5, properties={**timer, "TAGS": "ack"})
    journal.catch_up()
    assert journal.in_flight.count == 0


async def test_an_earlier_deadline_wakes_the_redelivery(bed: BrokerBed) -> None:
    bed.put()
    bed.put()
    client = bed.connect()
    journal = bed.broker.waiting.pops
    await pop(client, max_msg_nums=1)
    journal.awaited_ms = journal.in_flight.next_due_ms
    journal.is_woken.clear()
    await pop(client, max_msg_nums=1, invisible_time=1_000)
    assert journal.is_woken.is_set()


@pytest.mark.parametrize(("invisible_ms", "wakes"), [(999, True), (1_000, False), (60_000, False)])
async def test_a_sleeping_redelivery_is_woken_only_by_what_is_due_before_it_wakes(
    bed: BrokerBed, invisible_ms: int, *, wakes: bool
) -> None:
    bed.put()
    journal = bed.broker.waiting.pops
    redelivery = asyncio.create_task(redeliver_due(bed.broker))
    await eventually(lambda: journal.awaited_ms is not None)
    await pop(bed.connect(), invisible_time=invisible_ms)
    assert journal.is_woken.is_set() is wakes
    redelivery.cancel()
    with pytest.raises(asyncio.CancelledError):
        await redelivery


async def test_a_deleted_topic_leaves_nothing_behind(bed: BrokerBed) -> None:
    client = bed.connect()
    bed.put()
    await pop(client)
    reply = await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicHeader(topic=TOPIC))
    assert reply.code == ResponseCode.SUCCESS
    journal = bed.broker.waiting.pops
    assert journal.in_flight.count == 0
    journal.load()
    assert journal.in_flight.count == 0
    assert bed.broker.tables.offsets.find(*QUEUE) is None


async def test_a_reset_group_pops_from_there_also_after_a_crash(bed: BrokerBed) -> None:
    client = bed.connect()
    for body in (b"1", b"2"):
        bed.put(body)
    await pop(client)
    header = ResetOffsetHeader(
        topic=TOPIC, group=GROUP, timestamp=0, is_force=True, queue_id=0, offset=1
    )
    reply = await client.ask(
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header, version=VERSION_5_5_0
    )
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    bed.broker.tables.offsets.resets.clear()
    bed.broker.waiting.pops.load()
    assert (await pop(client)).bodies == [b"2"]


class Crash(Exception):
    """The process ends here."""


def crash(*_: object, **__: object) -> None:
    raise Crash


async def test_a_crash_between_a_redelivery_and_its_record_redelivers_nothing_twice(
    bed: BrokerBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = bed.connect()
    for body in (b"a", b"b", b"c"):
        bed.put(body)
    await ack(client, (await pop(client)).receipts[1])
    bed.clock.advance(10)
    monkeypatch.setattr(PopJournal, "note_acks", crash)
    with pytest.raises(Crash):
        redeliver_slice(bed.broker)
    monkeypatch.undo()
    bed.broker.waiting.pops.load()
    redeliver_slice(bed.broker)
    assert bed.broker.waiting.pops.in_flight.count == 0
    again = await pop(client)
    assert again.bodies == [b"a", b"c"]
    # The same once more, from the retry topic to the retry topic.
    bed.clock.advance(10)
    monkeypatch.setattr(PopJournal, "note_acks", crash)
    with pytest.raises(Crash):
        redeliver_slice(bed.broker)
    monkeypatch.undo()
    bed.broker.waiting.pops.load()
    redeliver_slice(bed.broker)
    assert (await pop(client)).bodies == [b"a", b"c"]


async def test_what_was_stored_before_the_last_record_of_the_journal_is_another_redelivery(
    bed: BrokerBed,
) -> None:
    """The receipt of a popped retry starts where that of the message does."""
    client = bed.connect()
    bed.put(b"a")
    await pop(client)
    bed.clock.advance(10)
    redeliver_slice(bed.broker)
    await pop(client)
    bed.broker.waiting.pops.load()
    bed.clock.advance(10)
    redeliver_slice(bed.broker)
    assert (await pop(client)).bodies == [b"a"]


async def test_a_crash_in_a_change_leaves_the_message_out_once(
    bed: BrokerBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = bed.connect()
    bed.put(b"a")
    bed.put(b"b")
    popped = await pop(client)
    journal = bed.broker.waiting.pops
    old = PopKey(QUEUE, 0, popped.header.pop_time)
    new = PopKey(QUEUE, 1, bed.clock.now_ms())
    monkeypatch.setattr(PopJournal, "note_acks", crash)
    with pytest.raises(Crash):
        journal.note_change(old, new, 60_000, is_suspended=False)
    monkeypatch.undo()
    journal.load()
    redeliver_slice(bed.broker)
    assert journal.in_flight.counts == {QUEUE: 2}
    bed.clock.advance(10)
    redeliver_slice(bed.broker)
    assert (await pop(client)).bodies == [b"a"]
    assert journal.in_flight.find(new) is not None


async def test_a_redelivery_that_is_refused_half_way_stores_nothing_twice(
    bed: BrokerBed, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = bed.connect()
    for body in (b"a", b"b", b"c"):
        bed.put(body)
    await pop(client)
    bed.clock.advance(10)
    stored: list[NewMessage] = []

    def refuse_the_third(messages: Messages, message: NewMessage) -> Appended:
        if len(stored) == 2:
            raise Refused(ResponseCode.SYSTEM_ERROR, "the disk is full")
        stored.append(message)
        return append_message(messages, message)

    monkeypatch.setattr(redelivery_module, "append_message", refuse_the_third)
    with pytest.raises(Refused):
        redeliver_slice(bed.broker)
    monkeypatch.undo()
    redeliver_slice(bed.broker)
    assert (await pop(client)).bodies == [b"a", b"b", b"c"]
    assert (await pop(client)).bodies == []
