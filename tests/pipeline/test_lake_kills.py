"""A lake has each message once, when brokers and executors are killed while it is filled."""

import os
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyspark
import pytest
from pyspark.sql import SparkSession

from roquet.client.admin.topics import TopicSettings
from roquet.client.blocking.admin import Admin
from roquet.client.blocking.producer import Producer
from roquet.pipeline.jobs.ingest import IngestPlan, IngestReport, ingest
from roquet.protocol.messages.message import Message
from tests.support.class_archive import quick_jvm
from tests.support.descendants import descendants, has_words
from tests.support.eventually import wait_until
from tests.support.ingest_command import IngestCommand
from tests.support.lake_rows import Found, found_by_arrow, found_by_duckdb
from tests.support.our_cluster import OurBroker, OurNameServer

COUNT = 60_000 if os.environ.get("ROQUET_LONG") else 3_000
STEP = COUNT // 10
TOPIC = "orders"
# Spark's processes start slowly on a machine that does other things, too.
PATIENCE_S = 120

pytestmark = [
    pytest.mark.java,
    pytest.mark.xdist_group("spark"),
    pytest.mark.full("kills jobs of Spark again and again"),
]


class Survived(NamedTuple):
    command: IngestCommand
    sent: Found
    # How much was published when the broker was killed, the first time with an executor.
    entries_at_kills: list[int]
    killed_executors: list[int]
    first: dict[str, Any]
    # With other cores and options.
    without_checkpoint: IngestReport


@pytest.fixture(scope="module")
def survived(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Survived]:
    directory = tmp_path_factory.mktemp("kills")
    with OurNameServer(directory / "names") as names:
        broker = OurBroker(directory / "broker", names.address)
        with broker, _no_trace_of_executors():
            sent = _send(names.address)
            command = IngestCommand(names.address, TOPIC, directory)
            entries: list[int] = []
            killed: list[int] = []

            def executors(process_id: int) -> list[int]:
                return [
                    each
                    for each in descendants(process_id)
                    if has_words(each, "CoarseGrainedExecutorBackend")
                ]

            def kill_executor(process_id: int) -> None:
                wait_until(lambda: executors(process_id), PATIENCE_S)
                killed.append(executors(process_id)[0])
                os.kill(killed[-1], signal.SIGKILL)

            def kill_both(process_id: int) -> None:
                # Without its broker the batch cannot end meanwhile.
                broker.kill()
                entries.append(command.entry_count())
                kill_executor(process_id)
                broker.start()

            def kill_broker(_process_id: int) -> None:
                entries.append(command.entry_count())
                broker.kill()
                broker.start()

            first = command.run_through(
                [
                    # In batch 0, which is planned and not read yet; and later.
                    ((command.checkpoint / "offsets/0").exists, kill_both),
                    (lambda: command.entry_count() >= 2, kill_broker),
                    (lambda: command.entry_count() >= 3, kill_executor),
                ],
                "--available-now",
                "--max-offsets-per-trigger",
                str(STEP),
                "--master=local-cluster[2,1,1024]",
                f"--conf=spark.executor.extraJavaOptions={quick_jvm()}",
            )
            shutil.rmtree(command.checkpoint)
            plan = IngestPlan(
                source={
                    "nameServer": names.address,
                    "topic": TOPIC,
                    "maxOffsetsPerTrigger": str(STEP * 4),
                },
                lake=command.lake,
                checkpoint=command.checkpoint,
                available_now=True,
            )
            yield Survived(command, sent, entries, killed, first, ingest(spark, plan))


def _send(name_server: str) -> Found:
    with Admin(name_server) as admin:
        admin.create_topic(
            TOPIC, TopicSettings(read_queue_count=3, write_queue_count=3), broker="our-broker"
        )
    with Producer(name_server, "sellers") as producer:
        receipts = [producer.send(Message(TOPIC, b"%d" % each)) for each in range(COUNT)]
    return Counter((each.queue.queue_id, each.queue_offset) for each in receipts)


@contextmanager
def _no_trace_of_executors() -> Iterator[None]:
    """Their directories are where Spark is installed, whatever is asked for."""
    place = Path(pyspark.__file__).parent / "work"
    before = set(place.iterdir()) if place.exists() else set()
    try:
        yield
    finally:
        for each in set(place.iterdir()) - before if place.exists() else ():
            shutil.rmtree(each, ignore_errors=True)


def test_the_kills_came_in_the_middle(survived: Survived) -> None:
    first, second = survived.entries_at_kills
    assert first == 0
    assert second >= 2
    assert len(survived.killed_executors) == 2


def test_plain_arrow_finds_each_message_once(survived: Survived) -> None:
    assert found_by_arrow(survived.command.lake) == survived.sent


def test_duckdb_finds_each_message_once(survived: Survived) -> None:
    assert found_by_duckdb(survived.command.lake) == survived.sent


def test_spark_finds_each_message_once(survived: Survived, spark: SparkSession) -> None:
    rows = spark.read.parquet(str(survived.command.lake)).select("queueId", "queueOffset")
    assert Counter((row.queueId, row.queueOffset) for row in rows.collect()) == survived.sent


def test_it_ended_well_by_itself_and_a_lost_checkpoint_adds_nothing(survived: Survived) -> None:
    assert survived.first["messages"] == survived.first["lake_messages"] == COUNT
    assert survived.without_checkpoint.messages == 0
    assert survived.without_checkpoint.lake_messages == COUNT


def test_nothing_is_left_that_is_not_published(survived: Survived) -> None:
    assert not survived.command.staged_files()
    listed = len(list(survived.command.lake.glob("**/*.parquet")))
    assert listed == survived.without_checkpoint.lake_files
