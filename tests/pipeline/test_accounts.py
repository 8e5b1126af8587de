"""`dlq-report` and `audit`: what happened to messages, from the records they left."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from roquet import (
    Admin,
    DeadLetter,
    Message,
    Producer,
    PushConsumer,
    QueueRef,
    ReceivedMessage,
    RetryLater,
    SendReceipt,
    StartFrom,
    TopicReader,
)
from roquet.pipeline.data_sources import message_schema
from roquet.pipeline.jobs.dlq_report import dead_letters
from roquet.pipeline.jobs.ingest import IngestPlan, ingest
from roquet.pipeline.lake.schemas.choosing import BodyOptions
from roquet.protocol.record_columns import PropertiesForm
from roquet.testing.blocking import BlockingCluster
from tests.support.eventually import wait_until
from tests.support.job_commands import JobCommands

COUNT = 20
ORDERS = "orders"


class Shop(NamedTuple):
    cluster: BlockingCluster
    # By what was ordered.
    receipts: dict[bytes, SendReceipt]

    @property
    def name_server(self) -> str:
        return self.cluster.name_server


@pytest.fixture(scope="module")
def shop() -> Iterator[Shop]:
    """Two orders that cannot be billed, one that is billed at the second attempt, and others."""
    with BlockingCluster() as cluster:
        cluster.new_topic(ORDERS, queues=2)
        done: set[bytes] = set()

        def bill(message: ReceivedMessage) -> None:
            if message.body.startswith(b"bad"):
                raise DeadLetter("no such account")
            if message.body == b"slow" and not message.retry_count:
                raise RetryLater(delay_level=1)
            done.add(message.body)

        receipts = {}
        with (
            Admin(cluster.name_server) as admin,
            PushConsumer(
                cluster.name_server, "billing", bill, trace=True, start_from=StartFrom.FIRST
            ) as consumer,
            Producer(cluster.name_server, "shop", trace=True) as producer,
        ):
            consumer.subscribe(ORDERS)
            bodies = [b"bad 1", b"bad 2", b"slow", *(b"good %d" % each for each in range(COUNT))]
            for body in bodies:
                message = Message(ORDERS, body, keys=(body.replace(b" ", b"-").decode(), "all"))
                receipts[body] = producer.send(message)
            wait_until(lambda: len(done) == COUNT + 1)
            wait_until(lambda: len(admin.dead_letters("billing")) == 2)
        yield Shop(cluster, receipts)


@pytest.fixture
def command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> JobCommands:
    return JobCommands(spark, monkeypatch)


# Dead letters.


def test_dead_letters_are_counted_by_group_topic_and_key(command: JobCommands, shop: Shop) -> None:
    report = command.json("dlq-report", "-n", shop.name_server)
    assert report["messages"] == 2
    (group,) = report["groups"]
    assert (group["group"], group["messages"], group["topics"]) == ("billing", 2, 1)
    assert report["topics"] == [{"group": "billing", "topic": ORDERS, "messages": 2}]
    assert report["keys"][0] == {"group": "billing", "key": "all", "messages": 2}
    assert {row["key"] for row in report["keys"]} == {"all", "bad-1", "bad-2"}
    ids = {shop.receipts[body].message_id for body in (b"bad 1", b"bad 2")}
    assert {row["id"] for row in report["last"]} == ids
    assert all(row["origin_id"] for row in report["last"])


def test_a_group_without_dead_letters_is_reported_before_spark_starts(
    command: JobCommands, shop: Shop
) -> None:
    finished = command("dlq-report", "-n", shop.name_server, "--group", "happy")
    assert finished.exit_code == 1
    assert "'happy' has no dead letters" in finished.stderr
    assert finished.stderr.count("\n") == 1


def test_reasons_and_tries_are_read_where_a_client_wrote_them(spark: SparkSession) -> None:
    schema = message_schema(PropertiesForm.MAP)
    now = datetime.now(UTC)
    known = {"topic": "%DLQ%g", "reconsumeTimes": 16, "bornTimestamp": now, "storeTimestamp": now}
    printed = {
        "DEAD_LETTER_REASON": "no",
        "DEAD_LETTER_ERROR": "KeyError",
        "DEAD_LETTER_TRIES": "3",
    }
    rows = [
        [{**known, "properties": properties}.get(name) for name in schema.fieldNames()]
        for properties in (printed, {"RETRY_TOPIC": "orders"})
    ]
    first, second = dead_letters(spark.createDataFrame(rows, schema)).collect()
    assert (first.group, first.reason, first.error, first.tries) == ("g", "no", "KeyError", 3)
    assert (second.topic, second.reason, second.tries) == ("orders", "not recorded", 16)


# Accounts.


def test_a_lake_that_has_all_is_right_and_one_that_lacks_some_is_not(
    command: JobCommands, shop: Shop, spark: SparkSession, tmp_path: Path
) -> None:
    topic = shop.cluster.new_topic(queues=1)
    plan = IngestPlan(
        source={"nameServer": shop.name_server, "topic": topic},
        lake=tmp_path / "lake",
        checkpoint=tmp_path / "checkpoint",
        available_now=True,
    )
    audited = ("audit", "-n", shop.name_server, "--topic", topic, "--lake", str(plan.lake))
    with Producer(shop.name_server, "shop") as producer:
        producer.send_many(Message(topic, b"%d" % number) for number in range(COUNT))
        ingest(spark, plan)
        assert command.json(*audited) == {
            "is_right": True,
            "sides": [
                {
                    "side": "lake",
                    "sent": COUNT,
                    "found": COUNT,
                    "quarantined": 0,
                    "missing": 0,
                    "twice": 0,
                    "unexpected": 0,
                    "out_of_order": 0,
                }
            ],
            "examples": [],
        }
        producer.send(Message(topic, b"too late"))
    report = command.json(*audited, exit_code=1)
    assert report["sides"][0]["missing"] == 1
    assert report["examples"][0]["id"] == f"{topic}@broker-a@0@{COUNT}"


def test_what_a_lake_left_out_or_set_apart_is_not_missing(
    command: JobCommands, shop: Shop, spark: SparkSession, tmp_path: Path
) -> None:
    topic = shop.cluster.new_topic(queues=1)
    bodies = [b"{}", b"no json", b"{}"]
    with Producer(shop.name_server, "shop") as producer:
        for body in bodies:
            producer.send(Message(topic, body, tags="wanted", keys=("k",)))
        producer.send(Message(topic, b"{}", tags="unwanted"))
        plan = IngestPlan(
            source={"nameServer": shop.name_server, "topic": topic, "tagExpression": "wanted"},
            lake=tmp_path / "lake",
            checkpoint=tmp_path / "checkpoint",
            available_now=True,
            bodies=BodyOptions(json_schema="number bigint"),
        )
        ingest(spark, plan)
        audited = ("audit", "-n", shop.name_server, "--topic", topic, "--lake", str(plan.lake))
        report = command.json(*audited)
        (side,) = report["sides"]
        assert report["is_right"]
        assert (side["sent"], side["found"], side["quarantined"], side["missing"]) == (3, 2, 1, 0)
        place = f"{topic}@broker-a@0@1"
        assert report["examples"] == [
            {"side": "lake", "problem": "quarantined", "id": place, "key": "k"}
        ]
        producer.send(Message(topic, b"no json", tags="wanted"))
    report = command.json(*audited, exit_code=1)
    assert (report["sides"][0]["quarantined"], report["sides"][0]["missing"]) == (1, 1)


def test_what_was_received_is_compared_with_what_was_sent(command: JobCommands, shop: Shop) -> None:
    sent, received = shop.cluster.new_topic(queues=1), shop.cluster.new_topic(queues=1)
    with Producer(shop.name_server, "shop") as producer:
        ids = [
            producer.send(Message(sent, b"%d" % each, keys=("k",))).message_id for each in range(6)
        ]
        # The second is missing, the third comes twice, the last two come in another order.
        for each in (ids[0], ids[2], ids[2], ids[3], ids[5], ids[4], "nobody"):
            producer.send(Message(received, b"got it", properties={"of": each}))
    report = command.json(
        *("audit", "-n", shop.name_server, "--topic", sent, "--received-topic", received),
        *("--received-id", "properties['of']"),
        exit_code=1,
    )
    (side,) = report["sides"]
    assert (side["sent"], side["found"]) == (6, 7)
    problems = {row["problem"]: row["id"] for row in report["examples"]}
    assert problems == {
        "missing": ids[1],
        "twice": ids[2],
        "unexpected": "nobody",
        "out of order": ids[4],
    }
    assert (side["missing"], side["twice"], side["unexpected"], side["out_of_order"]) == (1,) * 4


def test_files_of_ids_and_offsets_of_groups_are_sides_too(
    command: JobCommands, shop: Shop, tmp_path: Path
) -> None:
    topic = shop.cluster.new_topic(queues=1)
    with Producer(shop.name_server, "shop") as producer:
        ids = [producer.send(Message(topic, b"%d" % each)).message_id for each in range(5)]
    pq.write_table(pa.table({"msgId": ids[:4]}), tmp_path / "received.parquet")
    with TopicReader(shop.name_server) as reader:
        reader.commit("slowly", {QueueRef(topic, "broker-a", 0): 3})
    report = command.json(
        *("audit", "-n", shop.name_server, "--topic", topic),
        *("--received", tmp_path / "received.parquet", "--group", "slowly"),
        exit_code=1,
    )
    by_side = {side["side"]: side for side in report["sides"]}
    assert by_side["received"]["missing"] == 1
    assert by_side["received"]["out_of_order"] is None
    assert by_side["group slowly"]["missing"] == 2
    assert {row["id"] for row in report["examples"] if row["side"] == "received"} == {ids[4]}
