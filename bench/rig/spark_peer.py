"""Spark's own Kafka source beside format `rocketmq`: same rows, same session, taking turns.

Kafka's topic is filled from ours, so that it has the same keys, bodies and headers in as many
partitions. CPU time is that of the session with all Python that it starts, of no server.
"""

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from bench.rig.peer_servers import Unavailable, start_kafka
from pyspark.sql import DataFrame, SparkSession

from tests.support.descendants import descendants
from tests.support.jars import JarsUnavailable, cache_directory, fetch_jars, made_once

CONNECTOR: Final = "4.2.0"
_TOPIC: Final = "bench"
_SPARK: Final = "org.apache.spark"
# Of Spark 4.2, which runs on 4.3; its token provider was last published with 4.0.
_JARS: Final = (
    (_SPARK, "spark-sql-kafka-0-10_2.13", CONNECTOR),
    (_SPARK, "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.12.1"),
)
# What Kafka's source has of a message, by the names of ours.
SAME_COLUMNS: Final = (
    "keys string, body binary, topic string, queueId int, queueOffset bigint,"
    " storeTimestamp timestamp, properties map<string, string>"
)
_AS_HEADERS: Final = (
    "transform(map_entries(properties),"
    " each -> struct(each.key AS key, CAST(each.value AS binary) AS value)) AS headers"
)
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")

Act = Callable[[], object]
# What is compared, with our source and with Kafka's.
Pair = tuple[str, Act, Act]


class Spent(NamedTuple):
    time_s: float
    cpu_s: float


class Compared(NamedTuple):
    """Medians of rounds, the first of which is left out."""

    name: str
    ours: Spent
    theirs: Spent


@dataclass(frozen=True)
class Sources:
    """The same rows twice; `ours` are options of format `rocketmq`."""

    spark: SparkSession
    scratch: Path
    ours: dict[str, str]
    kafka: str
    rows: int

    def our_frame(self, form: str, columns: str | None = None) -> DataFrame:
        reader = self.spark.read.format("rocketmq").options(**self.ours, properties=form)
        return (reader if columns is None else reader.schema(columns)).load()

    def our_stream(self, form: str, columns: str | None = None) -> DataFrame:
        reader = self.spark.readStream.format("rocketmq").options(**self.ours, properties=form)
        return (reader if columns is None else reader.schema(columns)).load()

    def kafka_frame(self) -> DataFrame:
        return self.spark.read.format("kafka").options(**self._kafka_options()).load()

    def kafka_stream(self) -> DataFrame:
        return self.spark.readStream.format("kafka").options(**self._kafka_options()).load()

    def _kafka_options(self) -> dict[str, str]:
        return {
            "kafka.bootstrap.servers": self.kafka,
            "subscribe": _TOPIC,
            "startingOffsets": "earliest",
            "includeHeaders": "true",
        }

    def fill(self) -> None:
        frame = self.our_frame("map").selectExpr(
            "keys AS key", "body AS value", "queueId AS partition", _AS_HEADERS
        )
        options = {"kafka.bootstrap.servers": self.kafka, "topic": _TOPIC, "kafka.linger.ms": "20"}
        frame.write.format("kafka").options(**options).save()


@contextmanager
def kafka_server(directory: Path) -> Iterator[str]:
    """The address of one. Raises Unavailable."""
    with ExitStack() as stack:
        yield start_kafka(directory / "kafka", stack).address


def connector_jars() -> str:
    """For `spark.jars`. Raises Unavailable."""

    def fetch(directory: Path) -> None:
        fetch_jars(directory, _JARS)

    try:
        found = made_once(cache_directory() / "jars" / f"spark-kafka-{CONNECTOR}", fetch)
    except (JarsUnavailable, FileNotFoundError) as error:
        raise Unavailable(str(error)[-300:]) from None
    return ",".join(map(str, sorted(found.glob("*.jar"))))


def compare(pairs: Iterable[Pair], rounds: int) -> Iterator[Compared]:
    for name, ours, theirs in pairs:
        spent: tuple[list[Spent], list[Spent]] = ([], [])
        # In the first round, Java compiles.
        for _ in range(rounds + 1):
            for kept, act in zip(spent, (ours, theirs), strict=True):
                kept.append(_spent(act))
        yield Compared(name, *(_medians(each[1:]) for each in spent))


def table(compared: Iterable[Compared], rows: int) -> Iterator[str]:
    title = f"{rows:,} messages of 348 bytes".replace(",", " ")
    yield f"| {title} | Roquet, s | Kafka, s | time | CPU |"
    yield "|---|---|---|---|---|"
    for name, ours, theirs in compared:
        yield (
            f"| {name} | {ours.time_s:.2f} | {theirs.time_s:.2f}"
            f" | {ours.time_s / theirs.time_s:.2f} | {ours.cpu_s / theirs.cpu_s:.2f} |"
        )


def batches(sources: Sources) -> list[Pair]:
    ours, kafka = sources.our_frame("map"), sources.kafka_frame()
    narrow = sources.our_frame("map", SAME_COLUMNS)
    to_parquet = partial(_to_parquet, sources)
    return [
        ("count", ours.count, kafka.count),
        ("noop", partial(_noop, ours), partial(_noop, kafka)),
        ("Parquet, all columns", partial(to_parquet, ours), partial(to_parquet, kafka)),
        (
            "Parquet, the columns that Kafka has",
            partial(to_parquet, narrow),
            partial(to_parquet, kafka),
        ),
    ]


def streams(sources: Sources) -> list[Pair]:
    return [
        (
            "AvailableNow to Parquet, all columns",
            lambda: _available_now(sources, sources.our_stream("map")),
            lambda: _available_now(sources, sources.kafka_stream()),
        ),
        (
            "AvailableNow to Parquet, the columns that Kafka has",
            lambda: _available_now(sources, sources.our_stream("map", SAME_COLUMNS)),
            lambda: _available_now(sources, sources.kafka_stream()),
        ),
    ]


def _noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _to_parquet(sources: Sources, frame: DataFrame) -> None:
    target = str(sources.scratch / "compared")
    frame.write.option("compression", "zstd").mode("overwrite").parquet(target)


def _available_now(sources: Sources, frame: DataFrame) -> None:
    """A query from its start to its end, with a checkpoint that is new."""
    directory = Path(tempfile.mkdtemp(dir=sources.scratch))
    query = (
        frame.writeStream.format("parquet")
        .option("compression", "zstd")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(directory / "written"))
    )
    query.awaitTermination()
    assert sum(each.numInputRows for each in query.recentProgress) == sources.rows
    shutil.rmtree(directory)


def _spent(act: Act) -> Spent:
    cpu_s = _cpu_s()
    start_s = time.perf_counter()
    act()
    return Spent(time.perf_counter() - start_s, _cpu_s() - cpu_s)


def _medians(spent: list[Spent]) -> Spent:
    return Spent(median(each.time_s for each in spent), median(each.cpu_s for each in spent))


def _cpu_s() -> float:
    """Of the JVM that this process started and of what it started, ended processes included."""
    found = 0
    for process_id in _below_the_session():
        try:
            fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found += sum(map(int, fields[11:15]))
    return found / _TICKS_PER_S


def _below_the_session() -> Iterator[int]:
    for process_id in descendants(os.getpid()):
        command = Path(f"/proc/{process_id}/cmdline")
        if command.exists() and b"org.apache.spark.deploy.SparkSubmit" in command.read_bytes():
            yield process_id
            yield from descendants(process_id)
            return
