"""The check-back: what it decides about a half message, and what a round does."""

import asyncio
import logging
import threading
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from roquet.broker.settings.config import BrokerRole
from roquet.broker.transactions.check_back import (
    CheckDecision,
    CheckRules,
    Half,
    check_transactions,
    decision_on,
    facts_of,
    keep_checking,
)
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import field_texts
from roquet.protocol.messages.record import read_record
from roquet.store.config import FlushMode
from tests.support.broker_bed import BedClient, BrokerBed, broker_bed
from tests.support.drafts import draft
from tests.support.eventually import eventually
from tests.support.fake_clock import FakeClock
from tests.support.full_disk import FullDisk
from tests.support.golden_stores import unpack_store
from tests.support.inner_parts import flusher_of, log_of
from tests.support.late_disk import stop_disk, sync_disk, until_late
from tests.support.quick_disk import QuickDisk
from tests.support.stores import small_config
from tests.support.transactional import (
    COMMIT,
    GIVEN_UP_TOPIC,
    GROUP,
    HALF_TOPIC,
    OP_TOPIC,
    ROLLBACK,
    asked_about,
    begin,
    delivered,
    end,
    given_up,
    halves,
)

NOW = 1_000_000
RULES = CheckRules(timeout_ms=6_000, check_count_max=15, reserved_ms=72 * 3_600_000)

# --- the decision ---


@pytest.mark.parametrize(
    ("half", "decision"),
    [
        (Half(5, NOW - 60_000), CheckDecision.ASK),
        (Half(5, NOW - 6_000), CheckDecision.ASK),
        (Half(5, NOW - 5_999), CheckDecision.WAIT),
        (Half(5, NOW), CheckDecision.WAIT),
        # The clock of its producer is ahead.
        (Half(5, NOW + 1), CheckDecision.ASK),
        (Half(5, NOW + 3_600_000), CheckDecision.ASK),
        (Half(5, NOW - 60_000, check_count=14), CheckDecision.ASK),
        (Half(5, NOW - 60_000, check_count=15), CheckDecision.GIVE_UP),
        (Half(5, NOW, check_count=16), CheckDecision.GIVE_UP),
        (Half(5, NOW - RULES.reserved_ms), CheckDecision.ASK),
        (Half(5, NOW - RULES.reserved_ms - 1), CheckDecision.GIVE_UP),
        (Half(5, NOW - 60_000, immunity_ms=60_001), CheckDecision.KEEP),
        (Half(5, NOW - 60_000, immunity_ms=60_000), CheckDecision.ASK),
        (Half(5, NOW, immunity_ms=0), CheckDecision.ASK),
        (Half(5, NOW + 1, immunity_ms=1), CheckDecision.KEEP),
        (Half(5, NOW - 1, check_count=15, immunity_ms=60_000), CheckDecision.GIVE_UP),
        (Half(3, NOW - 60_000), CheckDecision.OVER),
        (Half(3, NOW), CheckDecision.OVER),
        (Half(5, NOW - 60_000, first_offset=3), CheckDecision.OVER),
        (Half(5, NOW - 60_000, first_offset=4), CheckDecision.ASK),
        (Half(3, NOW, check_count=99), CheckDecision.OVER),
    ],
)
def test_a_half_message_is_decided_about(half: Half, decision: CheckDecision) -> None:
    assert decision_on(half, {3}, NOW, RULES) is decision


def naive_decision(half: Half, ended: set[int], now_ms: int, rules: CheckRules) -> CheckDecision:
    """What the specification says, one sentence after the other."""
    is_over = bool(ended & {half.offset, half.first_offset})
    is_hopeless = half.check_count >= rules.check_count_max
    is_expired = now_ms > half.born_ms + rules.reserved_ms
    is_from_the_future = half.born_ms > now_ms
    if half.immunity_ms is None:
        is_asked_from_ms = half.born_ms if is_from_the_future else half.born_ms + rules.timeout_ms
    else:
        is_asked_from_ms = half.born_ms + half.immunity_ms
    if is_over:
        return CheckDecision.OVER
    if is_hopeless or is_expired:
        return CheckDecision.GIVE_UP
    if half.immunity_ms is None and is_from_the_future:
        return CheckDecision.ASK
    if now_ms >= is_asked_from_ms:
        return CheckDecision.ASK
    return CheckDecision.WAIT if half.immunity_ms is None else CheckDecision.KEEP


small = st.integers(0, 40)


@given(
    half=st.builds(
        Half,
        offset=small,
        born_ms=st.integers(0, 200),
        check_count=st.integers(0, 5),
        immunity_ms=st.none() | small,
        first_offset=st.none() | small,
    ),
    ended=st.sets(small),
    now_ms=st.integers(0, 200),
    rules=st.builds(CheckRules, small, st.integers(1, 4), st.integers(50, 150)),
)
@pytest.mark.slow
def test_decisions_are_those_of_the_specification(
    half: Half, ended: set[int], now_ms: int, rules: CheckRules
) -> None:
    assert decision_on(half, ended, now_ms, rules) is naive_decision(half, ended, now_ms, rules)


def test_facts_are_read_from_a_record_and_what_cannot_be_read_is_as_good_as_absent() -> None:
    texts = {
        "TRANSACTION_CHECK_TIMES": "4",
        "CHECK_IMMUNITY_TIME_IN_SECONDS": "9",
        "TRAN_PREPARED_QUEUE_OFFSET": "2",
    }
    assert facts(texts) == Half(0, 1_700_000_000_000, 4, 9_000, 2)
    assert facts(dict.fromkeys(texts, "-1")) == Half(0, 1_700_000_000_000, 0, 6_000, None)
    assert facts(dict.fromkeys(texts, "x" * 30)) == Half(0, 1_700_000_000_000, 0, 6_000, None)
    assert facts({}) == Half(0, 1_700_000_000_000, 0, None, None)


def facts(properties: dict[str, str]) -> Half:
    record = draft(topic=HALF_TOPIC, properties=properties)
    buffer = bytearray(record.size)
    record.write(buffer, 0, 0, 0, 0)
    return facts_of(read_record(buffer), RULES)


# --- rounds ---


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    async with broker_bed(tmp_path, transaction_check_count_max=3) as bed:
        yield bed


@pytest.fixture
async def producer(bed: BrokerBed) -> BedClient:
    return await member(bed, "one")


async def member(bed: BrokerBed, client_id: str) -> BedClient:
    client = bed.connect()
    await client.beat(client_id, sends=[GROUP])
    return client


async def round_after(bed: BrokerBed, seconds: float) -> None:
    bed.clock.advance(seconds)
    await check_transactions(bed.broker)


async def test_a_producer_that_did_not_decide_is_checked(
    bed: BrokerBed, producer: BedClient
) -> None:
    await begin(bed, producer, "a", flag=7)
    await round_after(bed, 6)
    (question,) = await producer.all_asked()
    _, copy = halves(bed)
    assert (question.code, question.is_oneway) == (RequestCode.CHECK_TRANSACTION_STATE, True)
    assert field_texts(question.fields) == {
        "tranStateTableOffset": "1",
        "commitLogOffset": str(copy.physical_offset),
        "msgId": "a",
        "transactionId": "a",
        "offsetMsgId": copy.offset_id,
        "bname": "broker-a",
    }
    shown = read_record(question.body)
    assert (shown.topic, shown.queue_id, shown.body, shown.flag) == ("TopicA", 1, b"a", 7)
    assert (shown.queue_offset, shown.physical_offset) == (1, copy.physical_offset)
    assert copy.properties["TRANSACTION_CHECK_TIMES"] == "1"


async def test_a_transaction_ends_with_the_answer(bed: BrokerBed, producer: BedClient) -> None:
    for key in ("a", "b"):
        await begin(bed, producer, key)
    await round_after(bed, 6)
    first, second = await producer.all_asked()
    await end(producer, asked_about(first), COMMIT)
    await end(producer, asked_about(second), ROLLBACK)
    assert delivered(bed) == [b"a"]
    await round_after(bed, 60)
    assert await producer.all_asked() == []
    assert bed.broker.waiting.pending_halves.progress == len(halves(bed)) == 4


async def test_a_young_transaction_is_left_alone(bed: BrokerBed, producer: BedClient) -> None:
    await begin(bed, producer, "a")
    await round_after(bed, 5.999)
    assert await producer.all_asked() == []
    assert len(halves(bed)) == 1
    assert bed.broker.waiting.pending_halves.progress == 0


async def test_what_is_over_is_not_asked_about(bed: BrokerBed, producer: BedClient) -> None:
    await end(producer, await begin(bed, producer, "a"), COMMIT)
    await begin(bed, producer, "b")
    await end(producer, await begin(bed, producer, "c"), ROLLBACK)
    await round_after(bed, 6)
    (question,) = await producer.all_asked()
    assert read_record(question.body).body == b"b"


async def test_the_members_of_a_group_are_asked_in_turn(
    bed: BrokerBed, producer: BedClient
) -> None:
    other = await member(bed, "two")
    for number in range(6):
        await begin(bed, producer, str(number))
    await round_after(bed, 6)
    assert len(await producer.all_asked()) == len(await other.all_asked()) == 3


async def test_when_the_producer_is_gone_another_of_its_group_is_asked(
    bed: BrokerBed, producer: BedClient
) -> None:
    other = await member(bed, "two")
    stranger = bed.connect()
    await stranger.beat("three", sends=["others"])
    await begin(bed, producer, "a")
    producer.leave()
    await round_after(bed, 6)
    (question,) = await other.all_asked()
    await end(other, asked_about(question), COMMIT)
    assert delivered(bed) == [b"a"]
    assert await stranger.all_asked() == []


async def test_a_missing_producer_counts_as_checked_and_the_next_round_checks_again(
    bed: BrokerBed, producer: BedClient
) -> None:
    await begin(bed, producer, "a")
    producer.leave()
    await round_after(bed, 6)
    assert halves(bed)[-1].properties["TRANSACTION_CHECK_TIMES"] == "1"
    other = await member(bed, "two")
    await round_after(bed, 60)
    (question,) = await other.all_asked()
    assert read_record(question.body).properties["TRANSACTION_CHECK_TIMES"] == "2"


async def test_a_broker_logs_that_no_producer_can_be_checked_and_what_follows(
    bed: BrokerBed, producer: BedClient, caplog: pytest.LogCaptureFixture
) -> None:
    await begin(bed, producer, "a")
    producer.leave()
    with caplog.at_level(logging.INFO):
        await round_after(bed, 6)
    printed = caplog.text
    assert f"no producer of group {GROUP} is connected; 1 of its transactions" in printed
    assert "after 3 checks each is given up" in printed
    assert "0 asked, 1 without a connected producer" in printed
    for _ in range(3):
        await round_after(bed, 60)
    assert f"gave up 1 transactions of group {GROUP}" in caplog.text
    assert GIVEN_UP_TOPIC in caplog.text


async def test_producers_that_do_not_read_are_not_asked_and_it_does_not_count(
    bed: BrokerBed, producer: BedClient
) -> None:
    await begin(bed, producer, "a")
    producer.connection._writable = asyncio.get_running_loop().create_future()
    await round_after(bed, 6)
    assert await producer.all_asked() == []
    assert len(halves(bed)) == 2
    assert "TRANSACTION_CHECK_TIMES" not in halves(bed)[-1].properties
    producer.connection._writable = None
    await round_after(bed, 60)
    (question,) = await producer.all_asked()
    assert read_record(question.body).properties["TRANSACTION_CHECK_TIMES"] == "1"


async def test_a_clock_that_is_set_forward_makes_no_transaction_old(
    bed: BrokerBed, producer: BedClient
) -> None:
    await begin(bed, producer, "a")
    bed.clock.jump(100 * 3600)
    await round_after(bed, 6)
    assert given_up(bed) == []
    assert len(await producer.all_asked()) == 1


async def test_a_client_that_never_answers_is_given_up(bed: BrokerBed, producer: BedClient) -> None:
    await begin(bed, producer, "a")
    for _ in range(4):
        await round_after(bed, 60)
    assert len(await producer.all_asked()) == 3
    assert given_up(bed) == [b"a"]
    topic = bed.broker.tables.topics.find(GIVEN_UP_TOPIC)
    assert topic is not None
    assert (topic.read_queue_nums, topic.perm) == (1, 6)
    assert bed.wants_to_register
    await round_after(bed, 60)
    assert given_up(bed) == [b"a"]


async def test_what_is_older_than_the_log_keeps_is_given_up(
    bed: BrokerBed, producer: BedClient
) -> None:
    await begin(bed, producer, "a")
    await round_after(bed, 72 * 3600 + 1)
    assert await producer.all_asked() == []
    assert given_up(bed) == [b"a"]


async def test_a_wish_not_to_be_asked_is_kept_and_stops_nothing_else(
    bed: BrokerBed, producer: BedClient
) -> None:
    await begin(bed, producer, "a", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "100"})
    await begin(bed, producer, "b")
    await round_after(bed, 50)
    (question,) = await producer.all_asked()
    assert read_record(question.body).body == b"b"
    await round_after(bed, 49.999)
    assert {read_record(each.body).body for each in await producer.all_asked()} == {b"b"}
    await round_after(bed, 0.001)
    asked = [read_record(each.body) for each in await producer.all_asked()]
    counts = {each.body: each.properties["TRANSACTION_CHECK_TIMES"] for each in asked}
    assert counts == {b"a": "1", b"b": "3"}


async def test_a_kept_half_message_ends_with_the_decision_about_its_first_copy(
    bed: BrokerBed, producer: BedClient
) -> None:
    first = await begin(bed, producer, "a", properties={"CHECK_IMMUNITY_TIME_IN_SECONDS": "100"})
    await round_after(bed, 50)
    await round_after(bed, 10)
    await end(producer, first, COMMIT)
    assert delivered(bed) == [b"a"]
    await round_after(bed, 100)
    assert await producer.all_asked() == []


async def test_a_copy_whose_first_is_over_in_apaches_store_is_passed_by(
    bed: BrokerBed, producer: BedClient
) -> None:
    first = await begin(bed, producer, "a")
    await end(producer, first, ROLLBACK)
    bed.put(
        topic=HALF_TOPIC,
        properties={"PGROUP": GROUP, "TRAN_PREPARED_QUEUE_OFFSET": str(first.queue_offset)},
    )
    await round_after(bed, 60)
    assert await producer.all_asked() == []
    assert bed.broker.waiting.pending_halves.progress == 2


async def test_a_round_ends_although_it_puts_half_messages_again(tmp_path: Path) -> None:
    # With room for all in one file of the queue, copies are read together with the last ones.
    config = small_config(tmp_path, queue_file_size=20 * 1000)
    async with broker_bed(tmp_path, store=config) as bed:
        producer = await member(bed, "one")
        for number in range(100):
            await begin(bed, producer, str(number))
        await round_after(bed, 6)
        questions = [read_record(each.body).body for each in await producer.all_asked()]
        assert questions == [b"%d" % number for number in range(100)]
        assert (bed.broker.waiting.pending_halves.progress, len(halves(bed))) == (100, 200)


async def test_a_round_leaves_its_progress_where_apache_looks_for_it(
    bed: BrokerBed, producer: BedClient
) -> None:
    for key in ("a", "b", "c"):
        await end(producer, await begin(bed, producer, key), COMMIT)
    await round_after(bed, 6)
    flusher_of(bed.broker.store).want()
    await eventually(lambda: bed.broker.store.synced_end == bed.broker.store.log_end)
    bed.broker.waiting.pending_halves.commit_progress(bed.broker.store.synced_end)
    offsets = bed.broker.tables.offsets
    assert offsets.find("CID_RMQ_SYS_TRANS", HALF_TOPIC, 0) == 3
    assert offsets.find("CID_RMQ_SYS_TRANS", OP_TOPIC, 0) == 3


async def test_a_transaction_that_ends_during_a_round_is_not_asked_about(
    bed: BrokerBed, producer: BedClient
) -> None:
    begun = [await begin(bed, producer, str(number)) for number in range(100)]
    bed.clock.advance(6)
    checking = asyncio.create_task(check_transactions(bed.broker))
    await asyncio.sleep(0)  # The first step is done.
    await end(producer, begun[99], COMMIT)
    await checking
    asked = {read_record(each.body).body for each in await producer.all_asked()}
    assert asked == {b"%d" % number for number in range(99)}


async def test_messages_without_a_topic_and_damaged_ones_stop_no_others(
    bed: BrokerBed, producer: BedClient, caplog: pytest.LogCaptureFixture
) -> None:
    bed.put(topic=HALF_TOPIC, properties={"PGROUP": GROUP})
    place = bed.put(b"damaged", topic=HALF_TOPIC, properties={"PGROUP": GROUP})
    await begin(bed, producer, "a")
    file = log_of(bed.broker.store).file_at(place.physical_offset)
    assert file is not None
    body_start = place.physical_offset + 88
    file.mapping[body_start : body_start + 1] = b"D"
    await round_after(bed, 6)
    (question,) = await producer.all_asked()
    assert read_record(question.body).body == b"a"
    errors = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 2


async def test_messages_without_a_topic_stop_no_others_after_a_start_either(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        bed.put(topic=HALF_TOPIC, properties={"PGROUP": GROUP, "UNIQ_KEY": "lost"})
        await begin(bed, bed.connect(), "a")
    async with broker_bed(tmp_path) as bed:
        producer = await member(bed, "one")
        await round_after(bed, 6)
        (question,) = await producer.all_asked()
        assert read_record(question.body).body == b"a"


async def test_a_half_message_without_room_for_the_check_stops_nothing_else(
    bed: BrokerBed, producer: BedClient
) -> None:
    # Nobody can send us such a one, but Apache may have stored it.
    name = "x" * (32767 - len("REAL_TOPIC\x01T\x02REAL_QID\x010\x02PGROUP\x01payers\x02\x01y"))
    properties = {"REAL_TOPIC": "T", "REAL_QID": "0", "PGROUP": GROUP, name: "y"}
    async with broker_bed(
        bed.broker.config.store.root / "large",
        store=small_config(bed.broker.config.store.root / "large", commit_log_file_size=1 << 20),
    ) as large:
        client = await member(large, "one")
        large.put(topic=HALF_TOPIC, properties=properties, has_checksum=False)
        await begin(large, client, "a")
        await round_after(large, 6)
        (question,) = await client.all_asked()
        assert read_record(question.body).body == b"a"


async def test_a_full_disk_ends_the_round_and_the_next_continues_there(tmp_path: Path) -> None:
    disk = FullDisk("commitlog")
    async with broker_bed(tmp_path, disk=disk) as bed:
        producer = await member(bed, "one")
        for number in range(40):
            await begin(bed, producer, str(number))
        disk.is_full = True
        await round_after(bed, 6)
        progress = bed.broker.waiting.pending_halves.progress
        assert 0 < progress < 40
        assert len(await producer.all_asked()) == progress
        disk.is_full = False
        await round_after(bed, 60)
        asked = [read_record(each.body).body for each in await producer.all_asked()]
        assert asked[: 40 - progress] == [b"%d" % number for number in range(progress, 40)]


async def test_the_topic_of_half_messages_is_made_by_the_first_round(bed: BrokerBed) -> None:
    assert HALF_TOPIC not in bed.broker.tables.topics
    await check_transactions(bed.broker)
    topic = bed.broker.tables.topics.find(HALF_TOPIC)
    assert topic is not None
    assert (topic.read_queue_nums, topic.write_queue_nums, topic.perm) == (1, 1, 6)
    assert "topics.json" in bed.unsaved_files


class DiskThatWaits(QuickDisk):
    def __init__(self) -> None:
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def sync(self, descriptor: int) -> None:
        assert self.may_go_on.wait(10)
        super().sync(descriptor)


async def test_with_sync_flush_a_producer_is_asked_when_it_can_answer(tmp_path: Path) -> None:
    disk = DiskThatWaits()
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, disk=disk, store=config) as bed:
        producer = await member(bed, "one")
        await begin(bed, producer, "a")
        disk.may_go_on.clear()
        await round_after(bed, 6)
        assert await producer.all_asked() == []
        disk.may_go_on.set()
        reply = await end(producer, asked_about(await producer.asked()), COMMIT)
        assert reply.code == ResponseCode.SUCCESS
        assert delivered(bed) == [b"a"]


@pytest.mark.slow
async def test_with_sync_flush_a_late_disk_leaves_the_question_to_the_next_round(
    tmp_path: Path,
) -> None:
    config = small_config(tmp_path, flush_mode=FlushMode.SYNC)
    async with broker_bed(tmp_path, store=config) as bed:
        producer = await member(bed, "one")
        await begin(bed, producer, "a")
        stop_disk(bed)
        await round_after(bed, 6)
        await until_late(bed.broker.messages.acks, bed.clock, bed.connect())
        sync_disk(bed)
        await eventually(lambda: bed.broker.waiting.pending_halves.end == 2)
        assert await producer.all_asked() == []
        checking = asyncio.create_task(check_transactions(bed.broker))
        await eventually(lambda: bed.broker.store.log_end > bed.broker.store.synced_end)
        sync_disk(bed)
        assert (await producer.asked()).code == RequestCode.CHECK_TRANSACTION_STATE
        await checking


async def test_rounds_come_in_the_interval_that_is_configured(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, transaction_check_interval_ms=1) as bed:
        producer = await member(bed, "one")
        await begin(bed, producer, "a")
        bed.clock.advance(6)
        bed.broker.background.services.once("check", lambda: keep_checking(bed.broker))
        assert read_record((await producer.asked()).body).body == b"a"


async def test_a_slave_sends_no_request(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        await begin(bed, await member(bed, "one"), "a")
    async with broker_bed(tmp_path, role=BrokerRole.SLAVE, broker_id=1) as bed:
        producer = await member(bed, "one")
        await round_after(bed, 60)
        assert await producer.all_asked() == []
        assert HALF_TOPIC not in bed.broker.tables.topics


@pytest.mark.slow
async def test_nothing_is_kept_for_an_open_transaction(tmp_path: Path) -> None:
    # Few files, and no index: these keep something for each.
    config = small_config(
        tmp_path, commit_log_file_size=1 << 23, queue_file_size=20 * 10_000, index_keys=False
    )
    async with broker_bed(tmp_path, store=config) as bed:
        properties = {"REAL_TOPIC": "T", "REAL_QID": "0", "PGROUP": GROUP}
        for _ in range(2000):
            bed.put(bytes(1000), topic=HALF_TOPIC, properties=properties)
        tracemalloc.start()
        try:
            await round_after(bed, 6)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert len(halves(bed)) == 4000
        assert peak < 500_000


# --- stores of Apache's brokers ---

STORES_MADE_MS = 1_794_775_000_000  # some minutes after the last of them was stopped


@asynccontextmanager
async def bed_on_golden(
    name: str, directory: Path, *, knows_progress: bool
) -> AsyncIterator[BrokerBed]:
    root = unpack_store(name, directory)
    if not knows_progress:
        (root / "config" / "consumerOffset.json").unlink()
        (root / "config" / "consumerOffset.json.bak").unlink(missing_ok=True)
    config = small_config(root, commit_log_file_size=32768)
    async with broker_bed(
        root, store=config, clock=FakeClock(STORES_MADE_MS), transaction_check_count_max=3
    ) as bed:
        yield bed


@pytest.mark.parametrize("knows_progress", [True, False])
@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("v49_clean", [("tx-P", "3"), ("tx-P", "3")]),
        ("v49_crashed", [("tx-P", "2"), ("tx-P", "2")]),
        ("v55_clean", []),
        ("v55_crashed", []),
    ],
)
async def test_the_open_transactions_of_apaches_brokers_are_asked_about(
    tmp_path: Path, name: str, asked: list[tuple[str, str]], knows_progress: bool
) -> None:
    """Each once, also when it is unknown how far the broker had come; those of 5.5.0 are over."""
    async with bed_on_golden(name, tmp_path, knows_progress=knows_progress) as bed:
        client = bed.connect()
        await client.beat("one", sends=[half.properties["PGROUP"] for half in halves(bed)])
        forgotten = given_up(bed)
        await check_transactions(bed.broker)
        shown = [read_record(each.body) for each in await client.all_asked()]
        assert [
            (each.properties["KEYS"], each.properties["TRANSACTION_CHECK_TIMES"]) for each in shown
        ] == asked
        assert given_up(bed) == forgotten
