"""A consumer that reads nothing says why, once and with the remedy; on request it raises."""

import asyncio
import logging
from typing import Any

import pytest

from roquet import AsyncProducer, AsyncPullConsumer, AsyncPushConsumer, Message, StartFrom
from roquet.client.errors import NoNameServer, NothingToRead, SendFailed, TopicNotFound
from roquet.client.group.readiness import Readiness
from roquet.client.push import iteration
from tests.support.eventually import eventually
from tests.support.inner_parts import member_of
from tests.support.live_cluster import LiveCluster
from tests.support.ports import free_port
from tests.support.push_consumers import GROUP, TOPIC, Inbox, consumer, new_topic, send
from tests.support.raising import raises

KINDS = [AsyncPushConsumer, AsyncPullConsumer]
QUICK: dict[str, Any] = {"balance_interval_s": 0.01}
LONG_S = 30.0


def warnings_of(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [
        each.message
        for each in caplog.records
        if each.levelno == logging.WARNING and text in each.message
    ]


@pytest.mark.parametrize("kind", KINDS)
async def test_without_a_server_it_is_reported_once(
    kind: Any, caplog: pytest.LogCaptureFixture
) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    reading = kind(nobody, GROUP, **QUICK)
    reading.subscribe(TOPIC)
    async with reading:
        rounds = member_of(reading).membership.rebalance
        rounds.has_started.clear()
        await rounds.has_started.wait()
        assert "no name server answered" in reading.last_error
        assert "check `name_server`" in reading.last_error
    assert len(warnings_of(caplog, "is not consuming yet")) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
async def test_on_request_opening_raises_what_is_in_the_way(kind: Any) -> None:
    reading = kind(f"127.0.0.1:{free_port()}", GROUP, **QUICK)
    reading.subscribe(TOPIC)
    with pytest.raises(NoNameServer):
        await reading.open(timeout_s=2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.slow
async def test_a_topic_that_is_not_there_is_named(
    kind: Any, cluster: LiveCluster, caplog: pytest.LogCaptureFixture
) -> None:
    reading = kind(cluster.name_server, GROUP, **QUICK)
    reading.subscribe("typo")
    with raises(TopicNotFound, topic="typo", is_missing=True):
        await reading.open(timeout_s=2)
    assert warnings_of(caplog, "topic 'typo'")


@pytest.mark.parametrize("kind", KINDS)
async def test_without_a_topic_it_says_what_to_call(
    kind: Any, cluster: LiveCluster, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(NothingToRead, match=r"no topic; call subscribe\(topic\)"):
        await kind(cluster.name_server, GROUP).open(timeout_s=2)
    async with kind(cluster.name_server, "others") as reading:
        assert reading.last_error == "it has no topic; call subscribe(topic)"
        await eventually(lambda: warnings_of(caplog, "group others is not consuming yet"))
    assert len(warnings_of(caplog, "group others is not consuming yet")) == 1


async def test_subscribing_after_opening_is_no_reason_to_warn(
    cluster: LiveCluster, caplog: pytest.LogCaptureFixture
) -> None:
    await new_topic(cluster, 1)
    async with (
        AsyncProducer(cluster.name_server, "shop") as producer,
        AsyncPullConsumer(cluster.name_server, GROUP, start_from=StartFrom.FIRST) as reading,
    ):
        reading.subscribe(TOPIC)
        await producer.send(Message(TOPIC, b"x"))
        while not await reading.poll():
            pass
    assert warnings_of(caplog, "") == []


@pytest.mark.parametrize("kind", KINDS)
async def test_opening_with_a_timeout_returns_as_soon_as_it_reads(
    kind: Any, cluster: LiveCluster
) -> None:
    await new_topic(cluster, 2)
    reading = kind(cluster.name_server, GROUP, **QUICK)
    reading.subscribe(TOPIC)
    async with asyncio.timeout(LONG_S):
        await reading.open(timeout_s=600)
    assert reading.last_error is None
    await reading.close()


async def test_what_was_in_the_way_is_gone_when_the_topic_comes(
    cluster: LiveCluster, producer: AsyncProducer
) -> None:
    inbox = Inbox()
    async with consumer(cluster, inbox, **QUICK) as reading:
        assert reading.last_error is not None
        await send(producer, b"x")
        await inbox.has(1)
        member = member_of(reading)
        await eventually(lambda: member.membership.readiness.first is None)


async def test_messages_without_a_consumer_are_reported(
    cluster: LiveCluster,
    producer: AsyncProducer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(iteration, "UNREAD_S", 0.01)
    await send(producer, b"x")
    async with consumer(cluster) as reading:
        await eventually(lambda: warnings_of(caplog, "give the consumer a listener"))
        assert "does not read them" in (reading.last_error or "")


@pytest.mark.slow
async def test_a_broker_is_not_taken_for_a_name_server(cluster: LiveCluster) -> None:
    broker = f"127.0.0.1:{cluster.brokers['broker-a'].config.listen_port}"
    async with AsyncProducer(broker, "shop") as producer:
        with pytest.raises(SendFailed, match=f"{broker} is no name server but probably a broker"):
            await producer.send(Message(TOPIC, b"x"))
    reading = AsyncPushConsumer(broker, GROUP, print)
    reading.subscribe(TOPIC)
    with pytest.raises(NoNameServer, match="listen at port 9876"):
        await reading.open(timeout_s=2)


def test_one_thing_in_the_way_of_many_topics_is_reported_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    readiness = Readiness("it", lambda: 0.0)
    for topic in ("a", "b"):
        for _ in range(3):
            readiness.report(topic, NoNameServer(["gone"]))
    assert len(caplog.records) == 1
    readiness.clear("a")
    readiness.clear("b")
    assert readiness.first is None
    readiness.report("a", NoNameServer(["gone"]))
    assert len(caplog.records) == 2
