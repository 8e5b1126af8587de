"""Clients of one name share what they have."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from roquet import (
    AsyncAdmin,
    AsyncProducer,
    AsyncPullConsumer,
    AsyncPushConsumer,
    AsyncTransactionProducer,
    BadArgument,
    Credentials,
    Message,
    Producer,
    PullConsumer,
    ReceivedMessage,
    StartFrom,
    TransactionState,
    reply_to,
)
from roquet.client.cluster.instance import local_ip
from roquet.testing import BlockingCluster
from tests.support.eventually import eventually
from tests.support.inner_parts import instance_of
from tests.support.live_cluster import LiveCluster
from tests.support.push_consumers import Inbox, new_topic
from tests.support.raising import raises
from tests.support.scripted_cluster import ScriptedCluster

TOPIC = "orders"


async def test_clients_of_one_name_are_one_client_to_brokers(cluster: LiveCluster) -> None:
    await new_topic(cluster, 1)
    names = cluster.name_server
    inbox = Inbox()
    shared: dict[str, Any] = {"instance_name": "one", "unit": "north"}
    consumer = AsyncPushConsumer(names, "billing", inbox, start_from=StartFrom.FIRST, **shared)
    consumer.subscribe(TOPIC)
    async with (
        AsyncProducer(names, "shop", **shared) as producer,
        consumer,
        AsyncProducer(names, "other-shop", **shared) as other,
    ):
        assert instance_of(producer).id == f"{local_ip()}@one@north"
        assert instance_of(producer).peers is instance_of(consumer).peers
        assert instance_of(producer).routes is instance_of(other).routes
        await producer.send(Message(TOPIC, b"x"))
        await other.send(Message(TOPIC, b"y"))
        await inbox.has(2)
        broker = cluster.brokers["broker-a"]
        group = broker.clients.consumers.find("billing")
        assert group is not None
        await eventually(lambda: {"shop", "other-shop"} <= set(broker.clients.producers.groups()))


async def test_a_client_that_leaves_unregisters_itself_alone(scripted: ScriptedCluster) -> None:
    names = scripted.name_server
    async with AsyncProducer(names, "stays", instance_name="one") as stays:
        async with AsyncProducer(names, "goes", instance_name="one") as goes:
            await goes.send(Message(TOPIC, b"x"))
        leavers = [each for broker in scripted.brokers for each in broker.leavers]
        assert {each.producer_group for each in leavers} == {"goes"}
        await stays.send(Message(TOPIC, b"x"))
    leavers = [each for broker in scripted.brokers for each in broker.leavers]
    assert {each.producer_group for each in leavers} == {"goes", "stays"}


async def test_one_heartbeat_has_the_groups_of_all(scripted: ScriptedCluster) -> None:
    names = scripted.name_server
    async with (
        AsyncProducer(names, "a", instance_name="one") as first,
        AsyncProducer(names, "b", instance_name="one"),
    ):
        await first.send(Message(TOPIC, b"x"))
        await eventually(
            lambda: any(
                {each.group_name for each in beat.producer_data_set} == {"a", "b"}
                for broker in scripted.brokers
                for beat in broker.beats
            )
        )
    assert len({beat.client_id for broker in scripted.brokers for beat in broker.beats}) == 1


async def test_without_a_name_nothing_is_shared(scripted: ScriptedCluster) -> None:
    names = scripted.name_server
    async with AsyncProducer(names, "a") as first, AsyncProducer(names, "b") as second:
        assert instance_of(first).id != instance_of(second).id
        assert instance_of(first).peers is not instance_of(second).peers


async def test_a_group_is_there_once_in_clients_that_share(scripted: ScriptedCluster) -> None:
    names = scripted.name_server
    async with AsyncProducer(names, "a", instance_name="one"):
        again = AsyncProducer(names, "a", instance_name="one")
        with raises(BadArgument, argument="instance_name"):
            await again.open()
    async with AsyncProducer(names, "a", instance_name="one"):
        pass


@pytest.mark.parametrize(
    "options",
    [{"credentials": Credentials("me", "secret")}, {"route_interval_s": 1.0}, {"tls": True}],
)
async def test_clients_that_share_have_to_agree(
    scripted: ScriptedCluster, options: dict[str, Any]
) -> None:
    names = scripted.name_server
    async with AsyncProducer(names, "a", instance_name="one"):
        other = AsyncProducer(names, "b", instance_name="one", **options)
        with raises(BadArgument, argument="instance_name"):
            await other.open()


@pytest.mark.parametrize("name", ["", "a@b", "a/b", "a b"])
def test_a_name_is_part_of_an_id_and_of_a_path(name: str) -> None:
    with raises(BadArgument, argument="instance_name"):
        AsyncProducer("127.0.0.1:9876", "a", instance_name=name)


@asynccontextmanager
async def pulling(names: str, group: str) -> AsyncIterator[AsyncPullConsumer]:
    consumer = AsyncPullConsumer(names, group, instance_name="one", start_from=StartFrom.FIRST)
    consumer.subscribe(TOPIC)
    async with consumer:
        yield consumer


async def test_what_a_broker_asks_reaches_the_one_it_is_about(cluster: LiveCluster) -> None:
    await new_topic(cluster, 1)
    names = cluster.name_server
    async with (
        pulling(names, "first") as first,
        pulling(names, "second") as second,
        AsyncAdmin(names) as admin,
    ):
        await eventually(lambda: first.assignment() and second.assignment())
        for group in ("first", "second"):
            (client_id,) = (await admin.members(group)).client_ids
            info = await admin.running_info(group, client_id)
            assert info.properties["consumerGroup"] == group


async def test_a_reply_reaches_the_producer_that_asked(cluster: LiveCluster) -> None:
    await new_topic(cluster, 1)
    names = cluster.name_server

    async with AsyncProducer(names, "replier") as replier:

        async def listen(message: ReceivedMessage) -> None:
            await replier.send(reply_to(message, message.body.upper()))

        consumer = AsyncPushConsumer(names, "billing", listen, start_from=StartFrom.FIRST)
        consumer.subscribe(TOPIC)
        async with (
            consumer,
            AsyncProducer(names, "a", instance_name="one") as first,
            AsyncProducer(names, "b", instance_name="one") as second,
        ):
            replies = await asyncio.gather(
                first.request(Message(TOPIC, b"x")), second.request(Message(TOPIC, b"y"))
            )
    assert [reply.body for reply in replies] == [b"X", b"Y"]


async def test_a_question_about_a_transaction_reaches_its_group(cluster: LiveCluster) -> None:
    names = cluster.name_server
    asked: dict[str, list[bytes]] = {"a": [], "b": []}

    def checker(group: str) -> Any:
        async def check(message: ReceivedMessage) -> TransactionState:
            asked[group].append(message.body)
            return TransactionState.COMMIT

        return check

    await cluster.stop_broker("broker-a")
    await cluster.start_broker(
        "broker-a", transaction_timeout_ms=1, transaction_check_interval_ms=50
    )
    async with (
        AsyncTransactionProducer(names, "a", check=checker("a"), instance_name="one"),
        AsyncTransactionProducer(names, "b", check=checker("b"), instance_name="one") as second,
    ):
        await second.prepare(Message(TOPIC, b"x"))
        await eventually(lambda: asked["b"])
    assert asked["a"] == []


def test_blocking_clients_of_one_name_share_a_thread_and_what_is_in_it() -> None:
    with BlockingCluster() as cluster:
        names = cluster.name_server
        with Producer(names, "shop", instance_name="one") as producer:
            consumer = PullConsumer(
                names, "billing", instance_name="one", start_from=StartFrom.FIRST
            )
            consumer.subscribe(TOPIC)
            with consumer:
                assert instance_of(producer).id == instance_of(consumer).id
                assert instance_of(producer).peers is instance_of(consumer).peers
            producer.send(Message(TOPIC, b"x"))
