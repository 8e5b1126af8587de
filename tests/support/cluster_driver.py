"""A program that uses everything on a cluster, and prints what it saw as JSON.

It is the driver, in a process of its own: a process has one Spark session. Executors have no
package `tests`, so what they run is in this file, which is a program and no module to them.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812

import roquet.pipeline
from roquet.errors import RoquetError
from roquet.pipeline.jobs.audit import AuditPlan, audit, check_audit, topic_side
from roquet.pipeline.jobs.ingest import IngestPlan, ingest
from roquet.pipeline.lake.places import read_place
from roquet.pipeline.queries import is_slow_start, run_query
from roquet.pipeline.selection import Selection
from roquet.pipeline.session import spark_session

T = TypeVar("T")

TRIES = 5
CONF = {
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "512m",
    # All have one address here; Spark would take their disks for one, too.
    "spark.shuffle.readHostLocalDisk": "false",
}


def main() -> None:
    given: dict[str, str] = json.loads(sys.argv[1])
    directory = Path(given["directory"])
    conf = CONF | {
        f"spark.executorEnv.{name}": value
        for name, value in os.environ.items()
        if name.startswith("AWS_")
    }
    with spark_session("cluster", given["master"], Path(given["archive"]), conf) as spark:
        roquet.pipeline.register(spark)
        source, target = given["source"], given["target"]
        reading = {"nameServer": given["name_server"], "topic": source}
        found: dict[str, Any] = {}
        found["places"] = places(spark)
        numbered = spark.range(0, int(given["count"]), 1, 4).select(F.expr("string(id) AS body"))
        with_workers(lambda: write(numbered, reading))
        found["batch"] = sorted(with_workers(lambda: bodies(load(spark, reading))))
        found["filtered"] = with_workers(lambda: filtered_bodies(spark, reading))
        copying = reading | {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "1000"}
        copy(spark, copying, reading | {"topic": target}, directory)
        copied = load(spark, reading | {"topic": target})
        found["copied"] = sorted(with_workers(lambda: bodies(copied)))
        lake = read_place(given["lake"])
        plan = IngestPlan(source=reading, lake=lake, available_now=True, format="delta")
        found["ingest"] = ingest(spark, plan)._asdict()
        accounts = AuditPlan(sent=topic_side(Selection(source=reading)), lake=lake)
        found["audit"] = audit(spark, check_audit(accounts)).sides[0]._asdict()
        found["failures"] = failures(spark, reading, given, directory)
    sys.stdout.write(json.dumps(found))


def filtered_bodies(spark: SparkSession, reading: dict[str, str]) -> list[list[int]]:
    """With and without pushing the filter down."""
    frames = [load(spark, reading | {"filterPushdown": each}) for each in ("true", "false")]
    return [sorted(bodies(frame.where("queueOffset < 10"))) for frame in frames]


def failures(
    spark: SparkSession, reading: dict[str, str], given: dict[str, str], directory: Path
) -> dict[str, str]:
    """What is said where executors do not see a directory of the driver."""
    here = IngestPlan(source=reading, lake=directory / "lake", available_now=True)
    stored = {"path": given["store"], "topic": given["stored_topic"]}
    store = spark.read.format("rocketmq-store").options(**stored).load()
    return {
        "lake": failure(lambda: ingest(spark, here)),
        "store": failure(store.count),
    }


def failure(act: Callable[[], object]) -> str:
    try:
        run_query(act)
    except RoquetError as error:
        return str(error)
    return "nothing"


def places(spark: SparkSession) -> list[str]:
    """Where executors have roquet from."""

    def place(_: int) -> str:
        import roquet  # noqa: PLC0415  In an executor.

        return str(roquet.__file__)

    return with_workers(lambda: spark.sparkContext.parallelize(range(8), 8).map(place).collect())


def load(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    return spark.read.format("rocketmq").options(**options).load()


def bodies(frame: DataFrame) -> list[int]:
    return [int(row.body) for row in frame.select("body").collect()]


def write(frame: DataFrame, options: dict[str, str]) -> None:
    frame.write.format("rocketmq").options(**options).mode("append").save()


def copy(
    spark: SparkSession, source: dict[str, str], target: dict[str, str], directory: Path
) -> None:
    """A stream from topic to topic; half way, the executor of a task is killed."""

    def pass_on(body: bytes) -> bytes:
        context = TaskContext.get()
        if int(body) == 700 and context is not None and not context.attemptNumber():
            # A task is a child of the process that forks them, and that one of the executor.
            status = Path(f"/proc/{os.getppid()}/stat").read_text()
            os.kill(int(status.rpartition(")")[2].split()[1]), signal.SIGKILL)
        return bytes(body)

    def run() -> None:
        frame = spark.readStream.format("rocketmq").options(**source).load()
        passed = F.udf(pass_on, "binary", useArrow=False)("body")
        query = (
            frame.select(passed.alias("body"))
            .writeStream.format("rocketmq")
            .options(**target, deliveryMode="idempotent", idColumn="body", batchCount="64")
            .option("checkpointLocation", str(directory / "copying"))
            .trigger(availableNow=True)
            .start()
        )
        try:
            query.awaitTermination()
        finally:
            query.stop()

    with_workers(run)


def with_workers(act: Callable[[], T]) -> T:
    """Tried again where Spark's Python was too slow to start."""
    for tries_left in reversed(range(TRIES)):
        try:
            return act()
        except PySparkException as error:
            if not tries_left or not is_slow_start(str(error)):
                raise
    raise AssertionError("there is a last try")


if __name__ == "__main__":
    main()
