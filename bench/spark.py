"""The pipeline on Spark, next to its floors in one run: thousand rows a second, on two cores.

Records are as brokers see them: 348 bytes, nine properties. The floors are the same rows from
Parquet, and Arrow batches that are there already, through the same API: no source can be faster.
Everything is run several times and the best one counts, because other programs use the machine
too. The broker and Spark share it. `--rows` and `--rounds` make it shorter or longer, names of
parts leave out the others. Some parts are tables of docs/performance.md, where `--write` puts them:

    kafka   next to Spark's own Kafka source, same rows, taking turns, medians
    streams next to its streaming queries alone, for more rows: each query starts processes
    lakes   ingest to Delta in an object store and to Iceberg, next to Parquet, taking turns, best
"""

import argparse
import compileall
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.streaming.listener import StreamingQueryListener
from pyspark.sql.types import StructType

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.rig.measured_page import write_measured
from bench.rig.peer_servers import Unavailable
from bench.rig.spark_peer import (
    Pair,
    Sources,
    batches,
    compare,
    connector_jars,
    kafka_server,
    streams,
    table,
)

import roquet
import roquet.pipeline
from roquet import Admin, Message, Producer, QueueRef, TopicSettings
from roquet.pipeline.data_sources import message_schema
from roquet.pipeline.jobs.ingest import IngestPlan, ingest
from roquet.pipeline.lake.places import LakePlace
from roquet.pipeline.malloc import keep_freed_memory
from roquet.pipeline.queries import is_slow_start
from roquet.pipeline.session import spark_session
from roquet.protocol.record_columns import PropertiesForm, decode_records
from tests.support.s3_store import S3Store
from tests.support.versitygw import NotCompiled, versitygw

PAGE: Final = Path(__file__).parents[1] / "docs" / "performance.md"
TOPIC, TARGET, TRICKLE = "BenchTopic", "BenchTarget", "BenchTrickle"
QUEUES = 8
SEND_COUNT = 1000
BODY = bytes(72)
RECORD_SIZE = 348
CHUNK_ROWS = 10_000
MICRO_BATCHES = 25
TRIES = 5


class Place(NamedTuple):
    """A broker with messages, and the same rows elsewhere."""

    name_server: str
    broker: str
    store: Path
    rows: int
    scratch: Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="the tables into docs/performance.md")
    given = parser.parse_args()
    # Servers have sessions of their own: they end with this program, and only with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    parts = given.parts or list(PARTS)
    compile_once()
    with tempfile.TemporaryDirectory(prefix="roquet-bench-") as name, servers(Path(name)) as place:
        place = place._replace(rows=given.rows)
        fill(place)
        print(f"{given.rows} records of {RECORD_SIZE} bytes, best of {given.rounds}\n")
        with spark_session(
            "bench", "local[2]", conf=kafka_conf() if {"kafka", "streams"} & {*parts} else {}
        ) as spark:
            roquet.pipeline.register(spark)
            spark.dataSource.register(PrebuiltSource)
            for part in parts:
                rows = PARTS[part](spark, place, given.rounds)
                if rows and given.write:
                    command = f"python bench/spark.py {part} --rows {given.rows} --write"
                    write_measured(PAGE, f"spark-{part}", rows, command)


def compile_once() -> None:
    """As installation does it; otherwise each process may compile all that it imports."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    compileall.compile_dir(roquet.__path__[0], quiet=2)


# --- what is measured ---


def print_decoding(spark: SparkSession, place: Place, rounds: int) -> None:  # noqa: ARG001
    print(f"{'million rows/s, one core':48}{'':>8}{'goal':>8}")
    # As tasks do it.
    keep_freed_memory()
    data = records(place)
    fixed = ["topic", "queueId", "queueOffset", "body", "bornTimestamp", "storeTimestamp"]
    more = [*fixed, "tags", "keys", "msgId"]
    for name, columns, form, goal in (
        ("decode, raw", [*fixed, "properties"], PropertiesForm.STRING, 5.0),
        ("decode, with tags, keys, id", [*more, "properties"], PropertiesForm.STRING, 2.5),
        ("decode, with a map", [*more, "properties"], PropertiesForm.MAP, 1.5),
    ):
        rate = 0.0
        for _ in range(20 * rounds):
            start_s = time.process_time()
            found = decode_records(data, columns, properties=form, check_bodies=False)
            rate = max(rate, found.num_rows / (time.process_time() - start_s) / 1e6)
        print_line(name, f"{rate:.2f}", f"{goal:.1f}")


def print_rows(spark: SparkSession, place: Place, rounds: int) -> None:
    print(f"\n{'thousand rows/s, two cores':48}{'':>8}{'goal':>8}")
    for form in ("string", "map"):
        print_floors(spark, place, form, rounds)
    for form in ("string", "map"):
        print_sources(spark, place, form, rounds)
    print_small_pulls(spark, place, rounds)


def print_floors(spark: SparkSession, place: Place, form: str, rounds: int) -> None:
    parquet, arrow = floor_files(place, form)
    from_parquet = spark.read.parquet(str(parquet))
    prebuilt = spark.read.format("prebuilt").options(rows=str(place.rows), path=str(arrow)).load()
    print_rate(f"floor: Parquet, noop, {form}", place, rounds, lambda: noop(from_parquet))
    print_rate(f"floor: prebuilt Arrow, count, {form}", place, rounds, prebuilt.count)
    print_rate(f"floor: prebuilt Arrow, noop, {form}", place, rounds, lambda: noop(prebuilt))
    print_rate(
        f"floor: prebuilt Arrow to Parquet, {form}", place, rounds, to_parquet(place, prebuilt)
    )


def print_sources(spark: SparkSession, place: Place, form: str, rounds: int) -> None:
    counted, pulled, written = {"string": (850, 550, 250), "map": (550, 380, 160)}[form]
    stored = spark.read.format("rocketmq-store").options(topic=TOPIC, properties=form)
    in_store = stored.load(str(place.store))
    at_broker = topic(spark, place, form)
    print_rate(f"store, count, {form}", place, rounds, in_store.count, counted)
    print_rate(f"store, noop, {form}", place, rounds, lambda: noop(in_store))
    print_rate(f"broker, noop, {form}", place, rounds, lambda: noop(at_broker), pulled)
    writing = to_parquet(place, at_broker)
    print_rate(f"broker to Parquet by Spark, {form}", place, rounds, writing, written)


def print_small_pulls(spark: SparkSession, place: Place, rounds: int) -> None:
    """As brokers of Apache answer: 32 messages at once."""
    key = "maxTransferBytesOnBulkPull"
    with Admin(place.name_server) as admin:
        before = admin.broker_config(place.broker)[key]
        admin.update_broker_config(place.broker, {key: str(32 * RECORD_SIZE)})
        frame = topic(spark, place, "string")
        print_rate("broker, noop, string, 32 a pull", place, rounds, lambda: noop(frame), 300)
        admin.update_broker_config(place.broker, {key: before})


def print_ingest(spark: SparkSession, place: Place, rounds: int) -> None:
    """The time of the batch alone, and all of it with a query that starts and ends."""
    taken = [ingested(spark, place, place.scratch / "lake", "parquet") for _ in range(rounds)]
    thousand = place.rows / 1000
    print_line("ingest, the batch alone", f"{thousand / min(s.batch_s for s in taken):.0f}", "600")
    print_line("ingest, AvailableNow", f"{thousand / min(s.total_s for s in taken):.0f}", "350")


class Ingested(NamedTuple):
    batch_s: float
    total_s: float


def ingested(spark: SparkSession, place: Place, lake: LakePlace, lake_format: str) -> Ingested:
    """A new lake, which is removed if it is a directory."""
    source = {"nameServer": place.name_server, "topic": TOPIC, "properties": "string"}
    plan = IngestPlan(source=source, lake=lake, format=lake_format, available_now=True)
    watching = Watching(spark)
    start_s = time.perf_counter()
    report = ingest(spark, plan)
    total_s = time.perf_counter() - start_s
    assert report.messages == place.rows
    if isinstance(lake, Path):
        shutil.rmtree(lake)
    return Ingested(sum(watching.trigger_seconds(1)), total_s)


def compare_lakes(spark: SparkSession, place: Place, rounds: int) -> list[str]:
    with ExitStack() as stack:
        store_name, store = object_store(place, stack)
        lakes: dict[str, Callable[[int], tuple[LakePlace, str]]] = {
            "Parquet, a directory": lambda turn: (place.scratch / f"parquet-{turn}", "parquet"),
            "Delta, a directory": lambda turn: (place.scratch / f"delta-{turn}", "delta"),
            f"Delta, S3 of {store_name}": lambda turn: (
                store.location_with_file(f"delta-{turn}", place.scratch),
                "delta",
            ),
            "Iceberg, a directory": lambda turn: (place.scratch / f"iceberg-{turn}", "iceberg"),
        }
        taken: dict[str, list[float]] = {name: [] for name in lakes}
        # In the first round, Java compiles.
        for turn in range(rounds + 1):
            for name, lake_of in lakes.items():
                total_s = ingested(spark, place, *lake_of(turn)).total_s
                taken[name] += [total_s] if turn else []
    # Medians of jobs that take a second or two are those of what else the machine does.
    plain_s = min(taken["Parquet, a directory"])
    rows = ["| `ingest` to | thousand messages/s | next to Parquet |", "|---|---|---|"]
    for name, each in taken.items():
        found_s = min(each)
        rows.append(f"| {name} | {place.rows / found_s / 1000:.0f} | {plain_s / found_s:.2f} |")
    print("\n".join(["", *rows]), flush=True)
    return rows


def object_store(place: Place, stack: ExitStack) -> tuple[str, S3Store]:
    try:
        server = versitygw(place.scratch / "s3")
    except NotCompiled as error:
        print(f"moto instead of versitygw: {error}")
        return "moto", stack.enter_context(S3Store())
    return "versitygw", stack.enter_context(S3Store(server=server))


def compare_kafka(spark: SparkSession, place: Place, rounds: int) -> list[str]:
    return compare_pairs(spark, place, rounds, lambda each: [*batches(each), *streams(each)])


def compare_streams(spark: SparkSession, place: Place, rounds: int) -> list[str]:
    return compare_pairs(spark, place, rounds, streams)


def compare_pairs(
    spark: SparkSession, place: Place, rounds: int, pairs: Callable[[Sources], list[Pair]]
) -> list[str]:
    if not spark.conf.get("spark.jars", ""):
        return []
    ours = {"nameServer": place.name_server, "topic": TOPIC, "startingOffsets": "earliest"}
    with kafka_server(place.scratch) as address:
        sources = Sources(spark, place.scratch, ours, address, place.rows)
        sources.fill()
        print(flush=True)
        rows = []
        for row in table(compare(pairs(sources), rounds), place.rows):
            print(row, flush=True)
            rows.append(row)
    return rows


def kafka_conf() -> dict[str, str]:
    try:
        return {"spark.jars": connector_jars()}
    except Unavailable as error:
        print(f"without Kafka's source: {error}")
        return {}


def print_sink(spark: SparkSession, place: Place, rounds: int) -> None:
    parquet, _ = floor_files(place, "map")
    # Names that belong to messages that were sent are not for new ones.
    frame = spark.read.parquet(str(parquet)).selectExpr(
        "body", "tags", "keys", "map_filter(properties, (k, v) -> k LIKE 'p%') AS properties"
    )
    options = {"nameServer": place.name_server, "topic": TARGET}
    writer = frame.write.format("rocketmq").options(**options).mode("append")
    print_rate("floor: what the sink is given, noop", place, rounds, lambda: noop(frame))
    print_rate("sink", place, rounds, writer.save, 220)


def print_micro_batches(spark: SparkSession, place: Place, rounds: int) -> None:  # noqa: ARG001
    """A message a batch, at most: what is left is what a batch costs."""
    options = {"nameServer": place.name_server, "topic": TRICKLE, "startingOffsets": "earliest"}
    frame = spark.readStream.format("rocketmq").options(**options).load()
    watching = Watching(spark)
    query = frame.writeStream.format("noop").start()
    with Producer(place.name_server, "bench") as producer:
        while len(query.recentProgress) < MICRO_BATCHES:
            producer.send(Message(TRICKLE, BODY))
            time.sleep(0.05)
    query.stop()
    # The first ones start processes.
    milliseconds = [each * 1000 for each in watching.trigger_seconds(MICRO_BATCHES - 5)[5:]]
    print(f"{'micro-batch with 8 queues, ms':48}{median(milliseconds):8.0f}{200:8}")


PARTS: Final[dict[str, Callable[[SparkSession, Place, int], list[str] | None]]] = {
    "decoding": print_decoding,
    "rows": print_rows,
    "ingest": print_ingest,
    "sink": print_sink,
    "batches": print_micro_batches,
    "kafka": compare_kafka,
    "streams": compare_streams,
    "lakes": compare_lakes,
}


# --- what is measured with ---


def noop(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def topic(spark: SparkSession, place: Place, form: str) -> DataFrame:
    options = {"nameServer": place.name_server, "topic": TOPIC, "properties": form}
    return spark.read.format("rocketmq").options(**options).load()


def to_parquet(place: Place, frame: DataFrame) -> Callable[[], None]:
    target = str(place.scratch / "written")
    return lambda: frame.write.option("compression", "zstd").mode("overwrite").parquet(target)


def print_rate(
    name: str, place: Place, rounds: int, act: Callable[[], Any], goal: int | None = None
) -> None:
    shortest_s = min(seconds_of(act) for _ in range(rounds))
    print_line(name, f"{place.rows / shortest_s / 1000:.0f}", str(goal or ""))


def seconds_of(act: Callable[[], Any]) -> float:
    """Again where Spark's Python was too slow to start."""
    for tries_left in reversed(range(TRIES)):
        start_s = time.perf_counter()
        try:
            act()
        except PySparkException as error:
            if not tries_left or not is_slow_start(str(error)):
                raise
        else:
            return time.perf_counter() - start_s
    raise AssertionError("there is a last try")


def print_line(name: str, value: str, goal: str) -> None:
    print(f"{name:48}{value:>8}{goal:>8}", flush=True)


@final
class Watching(StreamingQueryListener):
    """How long batches took that had rows."""

    def __init__(self, spark: SparkSession) -> None:
        self._seconds: list[float] = []
        spark.streams.addListener(self)

    def trigger_seconds(self, count: int) -> list[float]:
        """Spark tells of them a moment later."""
        deadline_s = time.monotonic() + 60
        while len(self._seconds) < count and time.monotonic() < deadline_s:
            time.sleep(0.05)
        return self._seconds

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802  Spark's names.
        pass

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        if event.progress.numInputRows:
            self._seconds.append(event.progress.durationMs["triggerExecution"] / 1000)

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        pass


# --- floors ---


class PrebuiltReader(DataSourceReader):
    """Two tasks that give the same batch again and again."""

    def __init__(self, path: str, rows: int) -> None:
        self._path = path
        self._rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(2)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002
        with pa.ipc.open_file(self._path) as file:
            batch = file.get_batch(0)
        for _ in range(self._rows // 2 // batch.num_rows):
            yield batch


class PrebuiltSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "prebuilt"

    def schema(self) -> StructType:
        with pa.ipc.open_file(self.options["path"]) as file:
            is_map = pa.types.is_map(file.schema.field("properties").type)
        return message_schema(PropertiesForm.MAP if is_map else PropertiesForm.STRING)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002
        return PrebuiltReader(self.options["path"], int(self.options["rows"]))


def floor_files(place: Place, form: str) -> tuple[Path, Path]:
    """The rows as files of Parquet, and some of them as one of Arrow; made once."""
    parquet, arrow = place.scratch / f"{form}.parquet", place.scratch / f"{form}.arrow"
    if not parquet.exists():
        batch = decode_records(records(place), properties=PropertiesForm(form))
        parquet.mkdir()
        for number in range(4):
            with pq.ParquetWriter(
                parquet / f"{number}.parquet", batch.schema, compression="zstd"
            ) as file:
                for _ in range(place.rows // 4 // batch.num_rows):
                    file.write_batch(batch)
        with pa.ipc.new_file(str(arrow), batch.schema) as file:
            file.write_batch(batch)
    return parquet, arrow


def records(place: Place) -> bytes:
    """As many as are decoded at once."""
    log = min((place.store / "commitlog").iterdir())
    with log.open("rb") as file:
        data = file.read(CHUNK_ROWS * RECORD_SIZE)
    assert decode_records(data).num_rows == CHUNK_ROWS, "records have another size"
    return data


# --- where ---


@contextmanager
def servers(scratch: Path) -> Iterator[Place]:
    program = Path(sysconfig.get_path("scripts")) / "roquet"
    arguments = [
        "up",
        "--name-server-port",
        "0",
        "--broker-port",
        "0",
        "--dir",
        str(scratch / "up"),
    ]
    with subprocess.Popen(
        [program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            ready = next(line for line in process.stdout if line.startswith("ready "))
            named = dict(word.split("=") for word in ready.split()[1:])
            (log,) = (scratch / "up").glob("**/commitlog")
            yield Place(named["name-server"], named["broker"], log.parent, 0, scratch)
        finally:
            process.terminate()


def fill(place: Place) -> None:
    with Admin(place.name_server) as admin:
        for name in (TOPIC, TARGET, TRICKLE):
            admin.create_topic(
                name, TopicSettings(read_queue_count=QUEUES, write_queue_count=QUEUES)
            )
        (broker,) = admin.brokers()
    # With those of the producer and the broker there are nine.
    properties = {f"p{number}": "value-0000" for number in range(3)}
    with Producer(place.name_server, "bench") as producer:
        for start in range(0, place.rows, SEND_COUNT):
            messages = [
                Message(TOPIC, BODY, tags="paid", keys=(f"key-{number:08}",), properties=properties)
                for number in range(start, start + SEND_COUNT)
            ]
            queue = QueueRef(TOPIC, broker.broker_name, start // SEND_COUNT % QUEUES)
            producer.send_batch(messages, queue=queue)


if __name__ == "__main__":
    main()
