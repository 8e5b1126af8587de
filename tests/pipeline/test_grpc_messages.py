"""Spark and the SDKs of 5.x: messages that came by gRPC are rows, and rows arrive by gRPC."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from roquet import Admin, TopicSettings
from roquet.grpc.codes import Code, MessageType
from roquet.grpc.message_form import put_time
from roquet.grpc.schema import Message, pb
from tests.support.eventually import wait_until
from tests.support.grpc_client import grpc_client
from tests.support.grpc_requests import as_consumer, message, receive_request, received, sent
from tests.support.our_cluster import HOST, OurCluster
from tests.support.ports import free_port
from tests.support.spark_workers import with_workers

pytestmark = pytest.mark.full("what tests of the endpoint and of the formats show, together")

GROUP_OF_MESSAGES = "shop-1"
DELAY_MS = 1500


class World(NamedTuple):
    cluster: OurCluster
    grpc_port: int

    def topic(self, name: str, kind: str) -> str:
        with Admin(self.cluster.name_server) as admin:
            admin.create_topic(name, TopicSettings(attributes={"message.type": kind}))
        return name

    def send(self, *messages: Message) -> None:
        async def act() -> None:
            async with grpc_client(self.grpc_port) as client:
                for each in messages:
                    answer = await sent(client, each)
                    assert answer.status.code == Code.OK, answer

        asyncio.run(act())

    def receive(self, topic: str, count: int) -> list[Message]:
        async def act() -> list[Message]:
            found: list[Message] = []
            async with grpc_client(self.grpc_port) as client:
                await as_consumer(client, topic)
                while len(found) < count:
                    waiting = receive_request(topic, long_polling_timeout=pb.Duration(seconds=5))
                    found += await received(client, waiting)
            return found

        return asyncio.run(act())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    port = free_port()
    with OurCluster(tmp_path, "--grpc", f"{HOST}:{port}") as cluster:
        yield World(cluster, port)


def frame(spark: SparkSession, world: World, topic: str) -> DataFrame:
    options = {"nameServer": world.cluster.name_server, "topic": topic}
    return spark.read.format("rocketmq").options(**options).load()


def rows(spark: SparkSession, world: World, topic: str) -> list[Row]:
    found: list[Row] = with_workers(frame(spark, world, topic).collect)
    return found


def test_a_row_has_all_that_a_message_of_grpc_has(spark: SparkSession, world: World) -> None:
    topic = world.topic("fifo", "FIFO")
    ordered = {"message_type": MessageType.FIFO, "message_group": GROUP_OF_MESSAGES}
    world.send(message(topic, b"tea", tag="new", keys=["k1", "k2"], message_id="01AB", **ordered))
    (row,) = rows(spark, world, topic)
    assert (bytes(row.body), row.tags, row["keys"], row.msgId) == (b"tea", "new", "k1 k2", "01AB")
    wanted = {"__SHARDINGKEY": GROUP_OF_MESSAGES, "UNIQ_KEY": "01AB", "city": "Rome"}
    assert wanted.items() <= row.properties.items()


def test_a_delayed_message_is_a_row_when_it_is_due(spark: SparkSession, world: World) -> None:
    topic = world.topic("later", "DELAY")
    due_ms = int(time.time() * 1000) + DELAY_MS
    delayed = message(topic, b"later", message_type=MessageType.DELAY)
    put_time(delayed.system_properties.delivery_timestamp, due_ms)
    world.send(delayed)
    wait_until(lambda: bool(rows(spark, world, topic)))
    (row,) = rows(spark, world, topic)
    assert row.storeTimestamp.timestamp() * 1000 >= due_ms
    assert row.properties["TIMER_DELIVER_MS"] == str(due_ms)


def test_a_row_arrives_by_grpc_with_its_message_group(spark: SparkSession, world: World) -> None:
    topic = world.topic("written", "FIFO")
    written = spark.range(0, 3, 1, 1).selectExpr(
        "binary(string(id)) as body",
        "'paid' as tags",
        "'k1 k2' as keys",
        "'shop' as orderKey",
        f"map('__SHARDINGKEY', '{GROUP_OF_MESSAGES}', 'city', 'Rome') as properties",
    )
    options = {"nameServer": world.cluster.name_server, "topic": topic}
    with_workers(written.write.format("rocketmq").options(**options).mode("append").save)
    found = world.receive(topic, 3)
    assert [each.body for each in found] == [b"0", b"1", b"2"]
    system = found[0].system_properties
    assert (system.message_group, system.tag, list(system.keys)) == (
        GROUP_OF_MESSAGES,
        "paid",
        ["k1", "k2"],
    )
    assert system.message_type == MessageType.FIFO
    assert {each.key: each.value for each in found[0].user_properties} == {"city": "Rome"}
