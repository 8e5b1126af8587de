"""How transactions begin and end: once, whatever their producers say and whatever crashes."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from roquet.broker.messages.appending import append_message
from roquet.broker.transactions.check_back import check_transactions
from roquet.broker.transactions.half_messages import committed, op_message
from roquet.broker.transactions.phases import starts_transaction
from roquet.protocol.codes import PullFlag, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of, read_header
from roquet.protocol.headers.messages import (
    PullMessageHeader,
    SendMessageHeader,
    SendMessageReplyHeader,
)
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import read_record, split_records
from roquet.store.config import FlushMode
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.eventually import eventually
from tests.support.full_disk import FullDisk
from tests.support.stores import messages, small_config
from tests.support.transactional import (
    COMMIT,
    GROUP,
    HALF_TOPIC,
    ROLLBACK,
    UNKNOWN,
    asked_about,
    begin,
    delivered,
    end,
    given_up,
    half_header,
    halves,
    over,
)


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path / "store", transaction_check_count_max=2) as bed:
        yield bed


@pytest.fixture
async def producer(bed: BrokerBed) -> BedClient:
    return await member(bed)


async def member(bed: BrokerBed, *, has_fast_path: bool = True) -> BedClient:
    client = bed.connect(has_fast_path=has_fast_path)
    await client.beat("one", sends=[GROUP])
    return client


async def round_after(bed: BrokerBed, seconds: float) -> None:
    bed.clock.advance(seconds)
    await check_transactions(bed.broker)


# --- the beginning ---


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({"properties": {"TRAN_MSG": "true"}}, True),
        ({"properties": {"TRAN_MSG": "True"}}, True),
        ({"properties": {"TRAN_MSG": "false"}}, False),
        ({"properties": {"TRAN_MSG": "1"}}, False),
        ({"properties": {"TRAN_MSG": "true", "DELAY": "3"}}, True),
        ({"properties": {"TRAN_MSG": "true"}, "reconsume_times": 2}, True),
        # Clients before 4.6.1 try a consumed message again with all that it had.
        ({"properties": {"TRAN_MSG": "true", "DELAY": "3"}, "reconsume_times": 1}, False),
        ({"properties": {"TRAN_MSG": "true", "DELAY": "0"}, "reconsume_times": 1}, True),
    ],
)
async def test_a_transaction_starts_with_its_mark(
    bed: BrokerBed, members: dict[str, Any], expected: bool
) -> None:
    assert starts_transaction(half_header(bed, "a", **members)) is expected


def test_a_mark_that_is_part_of_another_name_is_none() -> None:
    header = half_header_with("XTRAN_MSG\x01true\x02TRAN_MSGS\x01true")
    assert not starts_transaction(header)
    assert not starts_transaction(half_header_with(None))


def half_header_with(properties: str | None) -> SendMessageHeader:
    return SendMessageHeader(
        producer_group=GROUP,
        topic="T",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=0,
        sys_flag=0,
        born_timestamp=0,
        flag=0,
        properties=properties,
    )


async def test_a_half_message_is_stored_where_no_consumer_finds_it(
    bed: BrokerBed, producer: BedClient
) -> None:
    header = half_header(bed, "a", flag=7, properties={"DELAY": "3"})
    reply = await producer.ask(RequestCode.SEND_MESSAGE_V2, header, b"pay")
    sent = read_header(SendMessageReplyHeader, reply.fields)
    assert (sent.queue_id, sent.queue_offset) == (1, 0)
    (half,) = halves(bed)
    assert sent.msg_id == half.offset_id
    assert (half.queue_id, half.flag, half.sys_flag, half.body) == (0, 7, 0, b"pay")
    assert without_checksum(half) == {
        "KEYS": "order-a",
        "TRAN_MSG": "true",
        "UNIQ_KEY": "a",
        "PGROUP": GROUP,
        "WAIT": "true",
        "CLUSTER": "DefaultCluster",
        "REAL_TOPIC": "TopicA",
        "REAL_QID": "1",
    }
    assert delivered(bed) == []
    assert bed.broker.tables.topics.find("TopicA") is not None


def without_checksum(message: StoredMessage) -> dict[str, str]:
    return {name: value for name, value in message.properties.items() if name != "__CRC32#"}


async def test_a_broker_that_takes_no_transactions_says_so(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, refuse_transactions=True) as bed:
        client = bed.connect()
        header = half_header(bed, "a")
        reply = await client.ask(RequestCode.SEND_MESSAGE_V2, header, b"a")
        assert reply.code == ResponseCode.NO_PERMISSION
        assert halves(bed) == []


async def test_properties_that_leave_no_room_for_the_check_are_refused(
    bed: BrokerBed, producer: BedClient
) -> None:
    header = half_header(bed, "a", properties={"x": "y" * 32_600})
    reply = await producer.ask(RequestCode.SEND_MESSAGE_V2, header, b"a")
    assert reply.code == ResponseCode.MESSAGE_ILLEGAL
    assert "no room for the check" in (reply.remark or "")
    assert halves(bed) == []


async def test_a_transaction_to_a_topic_of_the_system_is_refused(
    bed: BrokerBed, producer: BedClient
) -> None:
    header = half_header(bed, "a", topic=HALF_TOPIC)
    reply = await producer.ask(RequestCode.SEND_MESSAGE_V2, header, b"a")
    assert reply.code == ResponseCode.NO_PERMISSION


# --- the end ---


async def test_a_commit_delivers_and_says_over(bed: BrokerBed, producer: BedClient) -> None:
    half = await begin(bed, producer, "a")
    reply = await end(producer, half, COMMIT)
    assert reply.code == ResponseCode.SUCCESS
    (message,) = messages(bed.broker.store, "TopicA", 1)
    assert (message.body, message.sys_flag) == (b"a", 8)
    assert message.prepared_transaction_offset == half.physical_offset
    assert over(bed) == [b"0"]


async def test_a_rollback_only_says_over(bed: BrokerBed, producer: BedClient) -> None:
    await end(producer, await begin(bed, producer, "a"), ROLLBACK)
    assert (delivered(bed), over(bed)) == ([], [b"0"])


async def test_a_consumer_that_waits_is_woken_by_a_commit(
    bed: BrokerBed, producer: BedClient
) -> None:
    half = await begin(bed, producer, "a")
    consumer = bed.connect()
    pull = PullMessageHeader(
        consumer_group="readers",
        topic="TopicA",
        queue_id=1,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=int(PullFlag.SUSPEND | PullFlag.SUBSCRIPTION),
        commit_offset=0,
        suspend_timeout_millis=60_000,
        subscription="*",
        sub_version=0,
    )
    consumer.send(Command(RequestCode.PULL_MESSAGE, fields=fields_of(pull)))
    await eventually(lambda: bed.waiting_pull_count)
    await end(producer, half, COMMIT)
    (message,) = split_records((await consumer.replied()).body)
    assert message.body == b"a"


@pytest.mark.parametrize("second", [COMMIT, ROLLBACK])
@pytest.mark.parametrize("first", [COMMIT, ROLLBACK])
async def test_the_second_word_about_a_transaction_is_ignored(
    bed: BrokerBed, producer: BedClient, first: int, second: int
) -> None:
    half = await begin(bed, producer, "a")
    await end(producer, half, first)
    reply = await end(producer, half, second)
    assert (reply.code, reply.remark) == (
        ResponseCode.SUCCESS,
        "the transaction is over already",
    )
    assert delivered(bed) == ([b"a"] if first == COMMIT else [])
    assert over(bed) == [b"0"]


async def test_the_late_word_about_an_older_copy_ends_the_transaction_once(
    bed: BrokerBed, producer: BedClient
) -> None:
    first = await begin(bed, producer, "a")
    await round_after(bed, 60)
    (question,) = await producer.all_asked()
    await end(producer, first, COMMIT)
    assert (delivered(bed), over(bed)) == ([b"a"], [b"1"])
    await end(producer, asked_about(question), COMMIT)
    await round_after(bed, 60)
    await round_after(bed, 60)
    assert await producer.all_asked() == []
    assert delivered(bed) == [b"a"]


async def test_the_word_about_a_copy_that_was_put_again_meanwhile_ends_the_newest(
    bed: BrokerBed, producer: BedClient
) -> None:
    await begin(bed, producer, "a")
    await round_after(bed, 60)
    (question,) = await producer.all_asked()
    await round_after(bed, 60)
    await end(producer, asked_about(question), ROLLBACK)
    assert over(bed) == [b"2"]
    await round_after(bed, 60)
    await round_after(bed, 60)
    assert given_up(bed) == []


async def test_the_late_word_about_what_is_over_and_passed_by_is_ignored(
    bed: BrokerBed, producer: BedClient
) -> None:
    first = await begin(bed, producer, "a")
    second = await begin(bed, producer, "b")
    await end(producer, first, COMMIT)
    await end(producer, second, ROLLBACK)
    await round_after(bed, 60)
    for half in (first, second):
        await end(producer, half, COMMIT)
    assert delivered(bed) == [b"a"]


async def test_the_late_word_about_what_was_given_up_still_counts_but_once(
    bed: BrokerBed, producer: BedClient
) -> None:
    half = await begin(bed, producer, "a")
    for _ in range(3):
        await round_after(bed, 60)
    assert given_up(bed) == [b"a"]
    await end(producer, half, COMMIT)
    await end(producer, half, COMMIT)
    assert delivered(bed) == [b"a"]


async def test_one_message_sent_twice_makes_two_transactions(
    bed: BrokerBed, producer: BedClient
) -> None:
    first = await begin(bed, producer, "a")
    bed.clock.advance(1)
    second = await begin(bed, producer, "a")
    await end(producer, second, COMMIT)
    await round_after(bed, 60)
    await end(producer, first, ROLLBACK)
    assert delivered(bed) == [b"a"]
    assert over(bed) == [b"1", b"2"]  # The copy of the first is the third of all.


async def test_transactions_continue_when_the_queue_of_half_messages_has_expired(
    bed: BrokerBed, producer: BedClient
) -> None:
    await end(producer, await begin(bed, producer, "a"), COMMIT)
    await round_after(bed, 60)
    bed.broker.store.delete_topic(HALF_TOPIC)
    await end(producer, await begin(bed, producer, "b"), COMMIT)
    assert delivered(bed) == [b"a", b"b"]


@pytest.mark.parametrize("settings", [{"index_keys": False}, {}])
async def test_what_cannot_be_found_by_key_is_asked_about_instead(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    members = {} if settings else {"properties": {"UNIQ_KEY": ""}}
    async with broker_bed(tmp_path, store=small_config(tmp_path, **settings)) as bed:
        producer = await member(bed)
        first = await begin(bed, producer, "a", **members)
        await round_after(bed, 60)
        reply = await end(producer, first, COMMIT)
        assert reply.remark == "the transaction is over already"
        (question,) = await producer.all_asked()
        await end(producer, asked_about(question), COMMIT)
        assert delivered(bed) == [b"a"]


# --- what cannot be written ---


@pytest.mark.parametrize("outcome", [COMMIT, ROLLBACK])
async def test_a_decision_without_room_for_it_can_be_repeated(tmp_path: Path, outcome: int) -> None:
    """Fills the log message by message, so that every record once is the one without room."""
    disk = FullDisk("commitlog")
    async with broker_bed(tmp_path, disk=disk) as bed:
        producer = await member(bed)
        begun = [await begin(bed, producer, str(number)) for number in range(100)]
        disk.is_full = True
        done = 0
        while (await end(producer, begun[done], outcome)).code == ResponseCode.SUCCESS:
            done += 1
        assert 0 < done < 100
        ended = [b"%d" % number for number in range(done)] if outcome == COMMIT else []
        assert delivered(bed) == ended
        disk.is_full = False
        bed.clock.advance(2)
        for half in begun:
            await end(producer, half, outcome)
        await round_after(bed, 60)
        assert sorted(over(bed)) == sorted(b"%d" % number for number in range(100))
        expected = {b"%d" % number for number in range(100)} if outcome == COMMIT else set()
        assert sorted(delivered(bed)) == sorted(expected)


async def test_without_room_for_keys_a_late_decision_can_be_repeated(tmp_path: Path) -> None:
    disk = FullDisk("index")
    async with broker_bed(tmp_path, disk=disk) as bed:
        producer = await member(bed)
        half = await begin(bed, producer, "a")
        await round_after(bed, 60)
        disk.is_full = True
        for number in range(120):  # as many as a file of the index holds
            bed.put(properties={"KEYS": str(number)})
        reply = await end(producer, half, COMMIT)
        assert reply.code == ResponseCode.SERVICE_NOT_AVAILABLE
        disk.is_full = False
        await end(producer, half, COMMIT)
        assert delivered(bed) == [b"a"]


async def test_a_commit_whose_op_message_found_no_room_is_over_all_the_same(
    tmp_path: Path,
) -> None:
    disk = FullDisk("commitlog")
    async with broker_bed(tmp_path, disk=disk) as bed:
        producer = await member(bed)
        # One body after the other, until just the op message does not fit any more.
        for size in range(0, 4000, 40):
            half = await begin(bed, producer, "x" * 32, queue_id=2)
            bed.put(bytes(size))
            disk.is_full = True
            await end(producer, half, COMMIT)
            disk.is_full = False
            bed.clock.advance(2)
            if bed.broker.waiting.pending_halves.unrecorded:
                break
        else:
            pytest.fail("there was always room")
        count = len(messages(bed.broker.store, "TopicA", 2))
        await end(producer, half, COMMIT)
        await round_after(bed, 60)
        assert len(messages(bed.broker.store, "TopicA", 2)) == count
        assert bed.broker.waiting.pending_halves.unrecorded == []
        assert over(bed)[-1] == b"%d" % half.queue_offset


# --- crashes ---


def killed(bed: BrokerBed, name: str) -> Path:
    """A copy of the directory as a killed process would leave it now."""
    root = bed.broker.config.store.root
    # What is being written aside by another thread may be renamed at any moment.
    aside = shutil.ignore_patterns("*.new")
    return Path(shutil.copytree(root, root.parent / name, ignore=aside))


async def test_after_a_crash_what_was_asked_about_is_not_asked_about_twice(
    bed: BrokerBed, producer: BedClient
) -> None:
    first = await begin(bed, producer, "a")
    await begin(bed, producer, "b")
    await round_after(bed, 60)
    question, _ = await producer.all_asked()
    await end(producer, asked_about(question), COMMIT)
    # The progress of the round is in no file yet.
    async with broker_bed(killed(bed, "killed")) as again:
        assert again.broker.waiting.pending_halves.progress == 0
        client = await member(again)
        await end(client, first, COMMIT)
        again.clock.advance(120)
        await check_transactions(again.broker)
        questions = await client.all_asked()
        assert [asked_about(each).queue_offset for each in questions] == [4]
        assert delivered(again) == [b"a"]


async def test_after_a_clean_stop_everything_is_as_it_was(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        producer = await member(bed)
        await begin(bed, producer, "a")
        done = await begin(bed, producer, "b")
        await end(producer, done, COMMIT)
        await round_after(bed, 60)
        (question,) = await producer.all_asked()
    async with broker_bed(tmp_path) as bed:
        pending = bed.broker.waiting.pending_halves
        assert pending.progress == 2
        producer = await member(bed)
        await end(producer, done, COMMIT)
        await end(producer, asked_about(question), COMMIT)
        assert delivered(bed) == [b"b", b"a"]


async def test_a_crash_is_remembered_over_clean_stops(bed: BrokerBed, producer: BedClient) -> None:
    first = await begin(bed, producer, "a")
    await round_after(bed, 60)
    directory = killed(bed, "killed")
    async with broker_bed(directory):
        pass  # Nothing was checked, so the progress is still that of before the crash.
    async with broker_bed(directory) as again:
        client = await member(again)
        again.clock.advance(120)
        await check_transactions(again.broker)
        (question,) = await client.all_asked()
        await end(client, asked_about(question), COMMIT)
        await end(client, first, COMMIT)
        assert delivered(again) == [b"a"]


async def test_an_older_copy_that_apache_ended_is_the_end_of_all(
    bed: BrokerBed, producer: BedClient
) -> None:
    await begin(bed, producer, "a")
    await round_after(bed, 60)
    await producer.all_asked()
    append_message(bed.broker.messages, op_message(0, bed.broker.messages.store_host, 0))
    async with broker_bed(killed(bed, "killed")) as again:
        client = await member(again)
        await round_after(again, 120)
        assert await client.all_asked() == []


@pytest.mark.slow
async def test_after_a_crash_all_keys_are_filed_before_ends_are_looked_for(
    bed: BrokerBed, producer: BedClient
) -> None:
    await begin(bed, producer, "a")
    for _ in range(3000):  # more than two looks would file
        bed.put(b"")
    append_message(bed.broker.messages, committed(halves(bed)[0]))  # the first step of a commit
    async with broker_bed(killed(bed, "killed")) as again:
        client = await member(again)
        await round_after(again, 60)
        assert await client.all_asked() == []
        assert delivered(again) == [b"a"]


async def test_with_sync_flush_all_that_survived_a_crash_is_known_at_once(tmp_path: Path) -> None:
    root = tmp_path / "store"
    async with broker_bed(root, store=small_config(root, flush_mode=FlushMode.SYNC)) as bed:
        producer = await member(bed)
        half = await begin(bed, producer, "a")
        await end(producer, half, ROLLBACK)
        directory = killed(bed, "killed")
    config = small_config(directory, flush_mode=FlushMode.SYNC)
    async with broker_bed(directory, store=config) as again:
        await end(again.connect(), half, COMMIT)
        assert delivered(again) == []


@pytest.mark.slow
async def test_a_transaction_ends_one_way_wherever_a_crash_cuts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is killed after every single record that the life of transactions writes."""
    cuts: list[Path] = []
    async with broker_bed(tmp_path / "store", transaction_check_count_max=2) as bed:
        # Both paths write the same records, but only those of the handlers pass here.
        producer = await member(bed, has_fast_path=False)
        append = bed.broker.store.append

        def append_and_cut(*arguments: Any) -> Any:
            appended = append(*arguments)
            cuts.append(killed(bed, f"cut-{len(cuts)}"))
            return appended

        monkeypatch.setattr(bed.broker.store, "append", append_and_cut)
        await live(bed, producer)
    monkeypatch.undo()
    assert len(cuts) == 13
    for cut in cuts:
        await check_what_survived(cut)


async def live(bed: BrokerBed, producer: BedClient) -> None:
    begun = {
        key: await begin(bed, producer, key) for key in ("commit", "roll back", "asked", "silent")
    }
    await end(producer, begun["commit"], COMMIT)
    await end(producer, begun["roll back"], ROLLBACK)
    for _ in range(4):
        await round_after(bed, 60)
        for question in await producer.all_asked():
            await answer(producer, question)
        bed.broker.waiting.pending_halves.commit_progress(bed.broker.store.synced_end)
        await bed.broker.tables.savers.offsets.until_saved()


async def answer(client: BedClient, question: Command) -> None:
    """What the producer always says, whenever it is asked."""
    outcomes = {b"commit": COMMIT, b"asked": COMMIT, b"roll back": ROLLBACK}
    outcome = outcomes.get(read_record(question.body).body, UNKNOWN)
    await end(client, asked_about(question), outcome)


async def check_what_survived(directory: Path) -> None:
    async with broker_bed(directory, transaction_check_count_max=2) as bed:
        begun = {half.body for half in halves(bed)}
        client = await member(bed)
        bed.clock.advance(1000)
        for _ in range(5):
            await round_after(bed, 60)
            for question in await client.all_asked():
                await answer(client, question)
        assert sorted(delivered(bed)) == sorted(begun & {b"commit", b"asked"}), directory
        assert given_up(bed) == [body for body in (b"silent",) if body in begun], directory
