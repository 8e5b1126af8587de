"""Transactions against a live broker of ours: how they end, and what decides without an answer."""

import asyncio
import pickle
import threading
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from roquet import Message
from roquet.client.blocking.producer import TransactionProducer
from roquet.client.errors import BadArgument, NotOpen, SendFailed
from roquet.client.hooks import SendHook, TransactionEnd, TransactionState
from roquet.client.producer.transaction_producer import AsyncTransactionProducer, Check, Transaction
from roquet.client.received import ReceivedMessage
from roquet.protocol.codes import ResponseCode
from roquet.protocol.messages.message import Property
from tests.support.eventually import eventually
from tests.support.live_cluster import LiveCluster, live_cluster
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.raising import raises
from tests.support.scripted_cluster import ScriptedCluster, answer_late, refuse

TOPIC = "paid"
COMMIT, ROLLBACK, UNKNOWN = (
    TransactionState.COMMIT,
    TransactionState.ROLLBACK,
    TransactionState.UNKNOWN,
)


class BookingFailed(Exception):
    """What the local part of a transaction raises."""


class Oracle:
    """A `check` that answers one thing after the other, and keeps what it was asked."""

    def __init__(self, *answers: TransactionState) -> None:
        self._answers = list(answers)
        self.asked: list[ReceivedMessage] = []
        self.threads: set[threading.Thread] = set()

    def __call__(self, message: ReceivedMessage) -> TransactionState:
        self.asked.append(message)
        self.threads.add(threading.current_thread())
        if not self._answers:
            raise BookingFailed("nobody knows")
        return self._answers.pop(0)


class Watcher(SendHook):
    def __init__(self) -> None:
        self.ends: list[TransactionEnd] = []

    def after_transaction(self, end: TransactionEnd) -> None:
        self.ends.append(end)


@pytest.fixture
async def patient_cluster(tmp_path: Path) -> AsyncIterator[LiveCluster]:
    """With a broker that does not ask while a test lasts, on however slow a machine."""
    async with live_cluster(tmp_path) as cluster:
        await cluster.start_broker("broker-a", transaction_timeout_ms=600_000)
        yield cluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LiveCluster]:
    """With a broker that asks soon and often."""
    async with live_cluster(tmp_path) as cluster:
        await cluster.start_broker(
            "broker-a",
            transaction_timeout_ms=50,
            transaction_check_interval_ms=50,
            # A busy machine may need longer for an answer than the default of 15 allows.
            transaction_check_count_max=1_000,
        )
        yield cluster


def never(message: ReceivedMessage) -> TransactionState:
    raise AssertionError(f"asked about {message}")


def producing(
    cluster: LiveCluster | ScriptedCluster, check: Check = never, **options: object
) -> AsyncTransactionProducer:
    return AsyncTransactionProducer(
        cluster.name_server,
        "payers",
        check=check,
        **options,  # type: ignore[arg-type]
    )


def bodies(cluster: LiveCluster) -> list[bytes]:
    return [message.body for message in cluster.all_stored(TOPIC)]


async def test_a_block_that_ends_well_lets_the_message_go(patient_cluster: LiveCluster) -> None:
    watcher = Watcher()
    message = Message(TOPIC, b"order 7", tags="new", keys=("k",), properties={"city": "Köln"})
    async with producing(patient_cluster, hooks=[watcher]) as producer:
        async with producer.transaction(message) as transaction:
            assert bodies(patient_cluster) == []
        (stored,) = patient_cluster.all_stored(TOPIC)
    assert (stored.body, stored.tags, stored.keys) == (b"order 7", "new", ("k",))
    assert stored.properties["city"] == "Köln"
    assert stored.message_id == transaction.id
    (end,) = watcher.ends
    assert (end.message_id, end.state, end.is_answer) == (transaction.id, COMMIT, False)
    assert (end.group, end.topic, end.tags, end.keys) == ("payers", TOPIC, "new", ("k",))


async def test_an_error_in_the_block_throws_the_message_away(patient_cluster: LiveCluster) -> None:
    watcher = Watcher()
    async with producing(patient_cluster, hooks=[watcher]) as producer:
        with pytest.raises(BookingFailed):
            async with producer.transaction(Message(TOPIC, b"x")):
                raise BookingFailed
        await producer.send_in_transaction(Message(TOPIC, b"last"), lambda _: COMMIT)
    assert bodies(patient_cluster) == [b"last"]
    assert [end.state for end in watcher.ends] == [ROLLBACK, COMMIT]


@pytest.mark.parametrize(("outcome", "expected"), [(COMMIT, [b"x"]), (ROLLBACK, [])])
async def test_a_block_can_decide_for_itself(
    patient_cluster: LiveCluster, outcome: TransactionState, expected: list[bytes]
) -> None:
    async with (
        producing(patient_cluster) as producer,
        producer.transaction(Message(TOPIC, b"x")) as transaction,
    ):
        transaction.outcome = outcome
    assert bodies(patient_cluster) == expected


async def test_a_local_transaction_may_be_a_coroutine_or_a_function_in_a_thread(
    patient_cluster: LiveCluster,
) -> None:
    async def book(transaction: Transaction) -> TransactionState:
        assert transaction.receipt.queue.topic == TOPIC
        return COMMIT

    def refuse_to_book(_transaction: Transaction) -> TransactionState:
        assert threading.current_thread() is not threading.main_thread()
        return ROLLBACK

    async with producing(patient_cluster) as producer:
        assert (await producer.send_in_transaction(Message(TOPIC, b"1"), book)).outcome is COMMIT
        ended = await producer.send_in_transaction(Message(TOPIC, b"2"), refuse_to_book)
    assert ended.outcome is ROLLBACK
    assert bodies(patient_cluster) == [b"1"]


async def test_what_is_left_open_is_decided_when_the_broker_asks(cluster: LiveCluster) -> None:
    check, watcher = Oracle(UNKNOWN, COMMIT), Watcher()
    message = Message(TOPIC, b"x", keys=("k",))
    async with producing(cluster, check, hooks=[watcher]) as producer:
        async with producer.transaction(message) as transaction:
            transaction.outcome = UNKNOWN
        await eventually(lambda: bodies(cluster))
    assert bodies(cluster) == [b"x"]
    # A broker that does not have the answer yet may ask once more.
    first, second, *_ = check.asked
    assert (first.topic, first.body, first.keys) == (TOPIC, b"x", ("k",))
    assert first.message_id == second.message_id == first.transaction_id == transaction.id
    assert [(end.state, end.is_answer) for end in watcher.ends[:3]] == [
        (UNKNOWN, False),
        (UNKNOWN, True),
        (COMMIT, True),
    ]
    assert threading.main_thread() not in check.threads


async def test_a_check_that_fails_is_asked_again(
    cluster: LiveCluster, caplog: pytest.LogCaptureFixture
) -> None:
    attempts = count(1)

    async def check(_message: ReceivedMessage) -> TransactionState:
        if next(attempts) == 1:
            raise BookingFailed("not now")
        return COMMIT

    async with producing(cluster, check) as producer:
        await producer.send_in_transaction(Message(TOPIC, b"x"), lambda _: UNKNOWN)
        await eventually(lambda: bodies(cluster))
    assert "not now" in caplog.text


@pytest.mark.parametrize("result", [None, True])
async def test_a_check_that_returns_no_state_is_logged_and_asked_again(
    cluster: LiveCluster, caplog: pytest.LogCaptureFixture, result: Any
) -> None:
    attempts = count(1)

    def check(_message: ReceivedMessage) -> Any:
        return result if next(attempts) == 1 else COMMIT

    async with producing(cluster, check) as producer:
        await producer.send_in_transaction(Message(TOPIC, b"x"), lambda _: UNKNOWN)
        await eventually(lambda: bodies(cluster))
    assert f"returned {result}, which is no TransactionState" in caplog.text


async def test_a_block_that_is_cancelled_leaves_the_decision_to_check(
    cluster: LiveCluster,
) -> None:
    check, is_inside = Oracle(COMMIT), asyncio.Event()

    async def book() -> None:
        async with producer.transaction(Message(TOPIC, b"x")):
            is_inside.set()
            await asyncio.Event().wait()

    async with producing(cluster, check) as producer:
        booking = asyncio.create_task(book())
        await is_inside.wait()
        booking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await booking
        await eventually(lambda: bodies(cluster))
    # More than once, if its answer takes longer than the broker waits.
    assert {message.body for message in check.asked} == {b"x"}


async def test_another_producer_of_the_group_answers_for_one_that_is_gone(
    cluster: LiveCluster,
) -> None:
    async with producing(cluster) as producer:
        await producer.send_in_transaction(Message(TOPIC, b"x"), lambda _: UNKNOWN)
    deputy = Oracle(COMMIT)
    async with producing(cluster, deputy) as producer:
        await producer.send_in_transaction(Message(TOPIC, b"own"), lambda _: ROLLBACK)
        await eventually(lambda: bodies(cluster))
    assert bodies(cluster) == [b"x"]


async def test_the_block_does_not_run_when_no_broker_takes_the_message(
    scripted: ScriptedCluster,
) -> None:
    for broker in scripted.brokers:
        broker.script = refuse(ResponseCode.MESSAGE_ILLEGAL)
    async with producing(scripted) as producer:
        with pytest.raises(SendFailed):
            async with producer.transaction(Message(TOPIC, b"x")):
                pytest.fail("the block ran")


async def test_a_message_that_is_not_safe_is_rolled_back(scripted: ScriptedCluster) -> None:
    for broker in scripted.brokers:
        broker.script = answer_late(ResponseCode.FLUSH_DISK_TIMEOUT)
    watcher = Watcher()
    async with producing(scripted, hooks=[watcher]) as producer:
        with pytest.raises(SendFailed, match="rolled back"):
            async with producer.transaction(Message(TOPIC, b"x")):
                pytest.fail("the block ran")
    assert [end.state for end in watcher.ends] == [ROLLBACK]


async def test_a_half_message_says_what_it_is(scripted: ScriptedCluster) -> None:
    async with (
        producing(scripted, namespace="ns") as producer,
        producer.transaction(Message(TOPIC, b"0" * 5000)),
    ):
        pass
    (header,) = [header for broker in scripted.brokers for header in broker.headers]
    assert header.sys_flag & 0x4
    assert header.sys_flag & 0x1  # It is compressed as well.
    properties = header.properties or ""
    assert f"{Property.TRANSACTION_PREPARED}\x01true" in properties
    assert f"{Property.PRODUCER_GROUP}\x01ns%payers" in properties


async def test_a_producer_that_is_closed_in_the_block_leaves_the_decision_to_check(
    patient_cluster: LiveCluster, caplog: pytest.LogCaptureFixture
) -> None:
    producer = producing(patient_cluster)
    await producer.open()
    async with producer.transaction(Message(TOPIC, b"x")):
        await producer.close()
    assert "left to `check`" in caplog.text
    with pytest.raises(NotOpen):
        await producer.send_in_transaction(Message(TOPIC, b"x"), lambda _: COMMIT)


async def test_the_message_is_checked_first(patient_cluster: LiveCluster) -> None:
    async with producing(patient_cluster) as producer:
        with pytest.raises(BadArgument):
            await producer.send_in_transaction(Message("no topic", b"x"), lambda _: COMMIT)
        assert producer.statistics().stored_count == 0


# The blocking twin.


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a broker that asks soon and often."""
    settings = {"transactionCheckInterval": "100", "transactionTimeOut": "100"}
    directory = tmp_path_factory.mktemp("transactions")
    with (
        OurNameServer(directory / "names") as names,
        OurBroker(directory / "broker", names.address, configuration=settings),
    ):
        yield names.address


@pytest.mark.slow
def test_the_blocking_block_runs_in_the_thread_that_calls(name_server: str) -> None:
    caller = threading.current_thread()
    with TransactionProducer(name_server, "payers", check=never) as producer:
        with producer.transaction(Message(TOPIC, b"1")) as transaction:
            assert threading.current_thread() is caller
        assert transaction.outcome is COMMIT
        with pytest.raises(BookingFailed), producer.transaction(Message(TOPIC, b"2")) as failed:
            raise BookingFailed
        assert failed.outcome is ROLLBACK

        def book(_transaction: Transaction) -> TransactionState:
            assert threading.current_thread() is caller
            return ROLLBACK

        assert producer.send_in_transaction(Message(TOPIC, b"3"), book).outcome is ROLLBACK
        assert producer.statistics().stored_count == 3


def test_ctrl_c_in_a_blocking_block_leaves_the_decision_to_check(name_server: str) -> None:
    is_asked = threading.Event()

    def check(_message: ReceivedMessage) -> TransactionState:
        is_asked.set()
        return ROLLBACK

    with TransactionProducer(name_server, "interrupted", check=check) as producer:
        with (
            pytest.raises(KeyboardInterrupt),
            producer.transaction(Message(TOPIC, b"x")) as transaction,
        ):
            raise KeyboardInterrupt
        assert transaction.outcome is UNKNOWN
        assert is_asked.wait(20)


# --- prepared in one process, ended in another ---


async def test_what_one_producer_prepares_another_one_ends(patient_cluster: LiveCluster) -> None:
    handles: list[bytes] = []
    async with AsyncTransactionProducer(
        patient_cluster.name_server, "sink", check=None
    ) as preparing:
        for number in range(6):
            prepared = await preparing.prepare(Message(TOPIC, b"%d" % number))
            handles.append(pickle.dumps(prepared))
    assert patient_cluster.all_stored(TOPIC) == []
    async with AsyncTransactionProducer(patient_cluster.name_server, "sink", check=never) as ending:
        kept, dropped = handles[:4], handles[4:]
        assert await ending.end(map(pickle.loads, kept), COMMIT) == []
        assert await ending.end(map(pickle.loads, dropped), ROLLBACK) == []
    stored = patient_cluster.all_stored(TOPIC)
    assert sorted(message.body for message in stored) == [b"0", b"1", b"2", b"3"]


async def test_brokers_ask_only_producers_that_can_answer(cluster: LiveCluster) -> None:
    asked_for: list[str] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked_for.append(message.message_id)
        return COMMIT if message.body == b"yes" else ROLLBACK

    async with (
        AsyncTransactionProducer(cluster.name_server, "sink", check=check) as asked,
        AsyncTransactionProducer(cluster.name_server, "sink", check=None) as preparing,
    ):
        # Now brokers know it.
        await asked.prepare(Message(TOPIC, b"no"))
        prepared = await preparing.prepare(Message(TOPIC, b"yes"))
        await eventually(lambda: len(cluster.all_stored(TOPIC)) == 1)
        assert len(cluster.brokers["broker-a"].clients.producers.members("sink")) == 1
    assert prepared.id in asked_for


async def test_what_cannot_be_ended_is_left_to_check(patient_cluster: LiveCluster) -> None:
    async with AsyncTransactionProducer(
        patient_cluster.name_server, "sink", check=never
    ) as producer:
        prepared = await producer.prepare(Message(TOPIC, b"x"))
        await patient_cluster.stop_broker("broker-a")
        assert await producer.end([prepared], COMMIT) == [prepared]


async def test_a_message_of_another_group_cannot_be_ended(patient_cluster: LiveCluster) -> None:
    async with (
        AsyncTransactionProducer(patient_cluster.name_server, "one", check=None) as one,
        AsyncTransactionProducer(patient_cluster.name_server, "two", check=None) as two,
    ):
        prepared = await one.prepare(Message(TOPIC, b"x"))
        with raises(BadArgument, argument="prepared"):
            await two.end([prepared], COMMIT)


async def test_a_producer_that_only_waits_is_asked_about_what_another_one_left(
    cluster: LiveCluster,
) -> None:
    await cluster.start_broker(
        "broker-b", transaction_timeout_ms=50, transaction_check_interval_ms=50
    )
    async with producing(cluster) as first:
        killed = first.transaction(Message(TOPIC, b"order 7"))
        await killed.__aenter__()
        await first.close()
    oracle = Oracle(COMMIT)
    async with producing(cluster, oracle):
        members = [cluster.brokers[name].clients.producers for name in ("broker-a", "broker-b")]
        assert all(each.members("payers") for each in members)
        await eventually(lambda: bodies(cluster) == [b"order 7"])
    assert [each.body for each in oracle.asked] == [b"order 7"]


async def test_an_idle_producer_meets_brokers_that_come_later(tmp_path: Path) -> None:
    async with (
        live_cluster(tmp_path) as cluster,
        producing(cluster, route_interval_s=0.05),
    ):
        broker = await cluster.start_broker("broker-a")
        await eventually(lambda: broker.clients.producers.members("payers"))


async def test_a_producer_opens_without_a_name_server_and_says_so(
    cluster: LiveCluster, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.stop_names()
    async with producing(cluster, route_interval_s=0.05):
        assert "no name server answered" in caplog.text
        await cluster.start_names()
        await cluster.stop_broker("broker-a")
        broker = await cluster.start_broker("broker-a")
        await eventually(lambda: broker.clients.producers.members("payers"))


async def test_a_producer_that_cannot_be_checked_is_not_registered(cluster: LiveCluster) -> None:
    async with AsyncTransactionProducer(cluster.name_server, "payers", check=None) as producer:
        await producer.prepare(Message(TOPIC, b"x"))
        assert not cluster.brokers["broker-a"].clients.producers.members("payers")
