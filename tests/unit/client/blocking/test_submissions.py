"""Sends that a blocking program does not wait for."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, wait

import pytest

from roquet import Message, Producer, SendReceipt
from roquet.client.blocking.loop_thread import LoopThread
from roquet.client.blocking.producer import Submissions
from roquet.client.errors import BadArgument, NotOpen, SendFailed, SendUnknown
from roquet.client.queue_ref import QueueRef
from tests.support.our_cluster import OurCluster
from tests.support.raising import raises

TOPIC = "orders"
PATIENT_S = 10.0
RECEIPT = SendReceipt("id", QueueRef(TOPIC, "a", 0), 0, "offset id")


class Broker:
    """Answers when the test asks for it."""

    def __init__(self, thread: LoopThread) -> None:
        self.is_asked = threading.Semaphore(0)
        self._thread = thread
        self._may_answer = asyncio.Event()

    def answer(self) -> None:
        self._thread.post(self._may_answer.set)

    async def send(self) -> SendReceipt:
        self.is_asked.release()
        await self._may_answer.wait()
        return RECEIPT


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    thread = LoopThread("producer")
    thread.start()
    yield thread
    thread.stop()


def test_a_message_is_on_its_way_before_it_is_stored(thread: LoopThread) -> None:
    broker = Broker(thread)
    future = Submissions(thread, 10, 100).submit(TOPIC, 1, broker.send, PATIENT_S)
    assert broker.is_asked.acquire(timeout=PATIENT_S)
    assert not future.done()
    broker.answer()
    assert future.result(PATIENT_S) is RECEIPT


@pytest.mark.parametrize(("count_max", "size_max"), [(2, 100), (10, 2)])
def test_no_more_are_under_way_than_may_be(
    thread: LoopThread, count_max: int, size_max: int
) -> None:
    broker = Broker(thread)
    submissions = Submissions(thread, count_max, size_max)
    futures = [submissions.submit(TOPIC, 1, broker.send, PATIENT_S) for _ in range(2)]
    with pytest.raises(SendFailed, match="2 sends"):
        submissions.submit(TOPIC, 1, broker.send, 0.01)
    broker.answer()
    wait(futures, PATIENT_S)
    futures.append(submissions.submit(TOPIC, 1, broker.send, PATIENT_S))
    assert futures[-1].result(PATIENT_S) is RECEIPT


def test_what_is_larger_than_the_room_goes_alone(thread: LoopThread) -> None:
    broker = Broker(thread)
    broker.answer()
    future = Submissions(thread, 10, 2).submit(TOPIC, 1000, broker.send, PATIENT_S)
    assert future.result(PATIENT_S) is RECEIPT


def test_an_error_is_that_of_the_future(thread: LoopThread) -> None:
    async def fail() -> SendReceipt:
        raise SendFailed(TOPIC, "no")

    future = Submissions(thread, 1, 1).submit(TOPIC, 1, fail, PATIENT_S)
    with raises(SendFailed, topic=TOPIC, reason="no"):
        future.result(PATIENT_S)


def test_what_is_under_way_when_the_loop_ends_is_unknown() -> None:
    thread = LoopThread("producer")
    thread.start()
    broker = Broker(thread)
    future = Submissions(thread, 1, 1).submit(TOPIC, 1, broker.send, PATIENT_S)
    assert broker.is_asked.acquire(timeout=PATIENT_S)
    thread.stop()
    with raises(SendUnknown, topic=TOPIC):
        future.result(PATIENT_S)


def test_what_is_cancelled_before_it_started_leaves_its_room(thread: LoopThread) -> None:
    broker = Broker(thread)
    submissions = Submissions(thread, 1, 1)
    may_go = threading.Event()
    thread.post(lambda: _stand_still(may_go))
    future = submissions.submit(TOPIC, 1, broker.send, PATIENT_S)
    assert future.cancel()
    may_go.set()
    broker.answer()
    assert submissions.submit(TOPIC, 1, broker.send, PATIENT_S).result(PATIENT_S) is RECEIPT


def _stand_still(may_go: threading.Event) -> None:
    assert may_go.wait(PATIENT_S)


def test_without_a_loop_nothing_is_under_way() -> None:
    thread = LoopThread("producer")
    submissions = Submissions(thread, 1, 1)
    for _ in range(2):
        with pytest.raises(NotOpen):
            submissions.submit(TOPIC, 1, Broker(thread).send, 0.01)


@pytest.mark.slow
def test_a_producer_sends_without_waiting_and_leaves_nothing_behind(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with OurCluster(tmp_path_factory.mktemp("roquet")) as cluster:
        futures: list[Future[SendReceipt]] = []
        with Producer(cluster.name_server, "shop", in_flight_max=16) as producer:
            futures += [
                producer.submit(Message(TOPIC, b"%d" % number), order_key="k")
                for number in range(200)
            ]
            with pytest.raises(BadArgument):
                producer.submit("text")  # type: ignore[arg-type]
        receipts = [future.result(0) for future in futures]
    # They may overtake each other.
    assert sorted(receipt.queue_offset for receipt in receipts) == [*range(200)]
