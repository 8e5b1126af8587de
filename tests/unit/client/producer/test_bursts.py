"""Bursts: more than a producer can send at once, and programs that are busy meanwhile.

Against servers that are processes of their own: they go on while this one is busy.
"""

import asyncio
import re
import time
from collections.abc import Iterator
from concurrent.futures import wait

import pytest

from roquet import AsyncProducer, Message, Producer, SendReceipt
from roquet.client.errors import SendError
from tests.support.busy import busy_for
from tests.support.eventually import eventually
from tests.support.loop_holds import LoopHolds
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.tcp_proxy import PROXY_HOST, TcpProxy

TOPIC = "burst"
BODY = b"x" * 128
# A producer has as little as in a program; a test waits as long as a busy machine needs.
PATIENT_S = 120.0


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurNameServer]:
    with OurNameServer(tmp_path_factory.mktemp("names")) as names:
        yield names


@pytest.fixture(scope="module")
def broker(names: OurNameServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OurBroker]:
    with OurBroker(tmp_path_factory.mktemp("broker"), names.address) as broker:
        yield broker


@pytest.mark.slow
@pytest.mark.parametrize("linger_ms", [None, 5.0])
async def test_a_burst_on_a_new_producer_is_stored_to_the_last_message(
    names: OurNameServer, broker: OurBroker, linger_ms: float | None
) -> None:
    async with AsyncProducer(names.address, "shop", linger_ms=linger_ms) as producer:
        receipts = await asyncio.gather(
            *(producer.send(Message(TOPIC, BODY)) for _ in range(20_000))
        )
        assert len({receipt.message_id for receipt in receipts}) == 20_000
        statistics = producer.statistics()
    assert (statistics.stored_count, statistics.failed_count) == (20_000, 0), broker.log_tail()


# Where thousands of tests have left objects, one garbage collection takes a second.
@pytest.mark.own_process
@pytest.mark.slow
async def test_a_burst_leaves_the_loop_free_once_its_tasks_have_started(
    names: OurNameServer, broker: OurBroker
) -> None:
    count = 50_000
    async with AsyncProducer(names.address, "shop") as producer:
        await producer.send(Message(TOPIC, BODY), timeout_s=PATIENT_S)
        holds = LoopHolds()
        burst = asyncio.gather(*(producer.send(Message(TOPIC, BODY)) for _ in range(count)))
        started_at_s = time.thread_time()
        # asyncio starts all tasks in one turn.
        await asyncio.sleep(0)
        start_s = time.thread_time() - started_at_s
        holds.start()
        receipts = await burst
        holds.stop()
    assert len(receipts) == count, broker.log_tail()
    # CPU time of one turn: a small part of what the start takes, which is asyncio's own.
    assert holds.longest_s < start_s


@pytest.mark.slow
async def test_a_program_that_is_busy_for_longer_than_the_timeout_gets_its_receipts(
    names: OurNameServer, broker: OurBroker
) -> None:
    async with AsyncProducer(names.address, "shop") as producer:
        await producer.send(Message(TOPIC, BODY), timeout_s=PATIENT_S)
        sends = [
            asyncio.create_task(producer.send(Message(TOPIC, BODY), timeout_s=0.5))
            for _ in range(2_000)
        ]
        # Some are on their way, the others wait for room.
        await eventually(lambda: producer.statistics().waiting_count)
        busy_for(2)
        receipts = await asyncio.gather(*sends)
    assert len(receipts) == 2_000, broker.log_tail()


@pytest.mark.slow
def test_submitted_messages_of_many_new_topics_are_all_stored(
    names: OurNameServer, broker: OurBroker
) -> None:
    with Producer(names.address, "shop") as producer:
        futures = [producer.submit(Message(f"new-{number % 100}", BODY)) for number in range(1_000)]
        wait(futures, PATIENT_S)
        assert all(isinstance(future.result(0), SendReceipt) for future in futures)
    assert not broker.has_ended


@pytest.mark.slow
async def test_a_broker_that_is_away_is_tried_until_the_time_is_over(
    names: OurNameServer, broker: OurBroker
) -> None:
    async with AsyncProducer(names.address, "shop") as producer:
        await producer.send(Message(TOPIC, BODY), timeout_s=PATIENT_S)
        await asyncio.to_thread(broker.stop)
        with pytest.raises(SendError, match=r"cannot connect to \S+: .*\(\d+ times\)"):
            await producer.send(Message(TOPIC, BODY), timeout_s=1.0)
        patient = asyncio.create_task(producer.send(Message(TOPIC, BODY), timeout_s=PATIENT_S))
        await asyncio.to_thread(broker.start)
        assert (await patient).queue.broker_name == broker.broker_name


@pytest.mark.slow
async def test_a_name_server_that_is_away_is_asked_until_the_time_is_over(
    names: OurNameServer, broker: OurBroker
) -> None:
    proxy = TcpProxy(PROXY_HOST, names.address)
    address = f"{PROXY_HOST}:{names.address.rpartition(':')[2]}"
    async with proxy, AsyncProducer(address, "shop") as producer:
        proxy.refuse()
        with pytest.raises(SendError, match=re.escape(address)):
            await producer.send(Message(TOPIC, BODY), timeout_s=1.0)
        patient = asyncio.create_task(producer.send(Message(TOPIC, BODY), timeout_s=PATIENT_S))
        await asyncio.sleep(0)
        await proxy.accept()
        assert (await patient).queue.broker_name == broker.broker_name


@pytest.mark.slow
async def test_without_a_broker_a_burst_ends_in_errors(
    names: OurNameServer, broker: OurBroker
) -> None:
    async with AsyncProducer(names.address, "shop", in_flight_max=100) as producer:
        await producer.send(Message(TOPIC, BODY), timeout_s=PATIENT_S)
        await asyncio.to_thread(broker.stop)
        ends = await asyncio.gather(
            *(producer.send(Message(TOPIC, BODY)) for _ in range(20_000)), return_exceptions=True
        )
        await asyncio.to_thread(broker.start)
        assert all(isinstance(end, SendError) for end in ends)
        await producer.send(Message(TOPIC, BODY), timeout_s=PATIENT_S)
