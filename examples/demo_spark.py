"""The last chapter of the demo: twenty thousand orders are ingested into a lake and summed up.

It needs Spark and Java 17, which the other chapters do not, and is skipped if they are missing.
It writes only to a temporary directory.
"""

import json
import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn
from rich.table import Table

from roquet import Message, Producer

COUNT, BATCH = 20_000, 1000
TAGS = ("new", "paid", "sent")
# Less optimisation by the JIT compiler: this Spark runs for seconds.
QUICK_JVM = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}


def show_spark(console: Console, name_server: str, topic: str) -> None:
    """Blocks for half a minute, most of it until Spark has started."""
    has_java = shutil.which("java") is not None or "JAVA_HOME" in os.environ
    if find_spec("pyspark") is None or not has_java:
        console.print("Spark is skipped: it needs Java 17 and 'pip install roquet\\[spark]'")
        return
    total = send_orders(name_server, topic)
    console.print(f"sent {total} more orders, in batches of {BATCH}")
    with tempfile.TemporaryDirectory(prefix="roquet-demo-") as scratch:
        fill_and_add_up(console, name_server, topic, Path(scratch))


def send_orders(name_server: str, topic: str) -> int:
    with Producer(name_server, "shop") as producer:
        for start in range(0, COUNT, BATCH):
            orders = [
                Message(
                    topic,
                    json.dumps({"order": number, "amount": number * 37 % 500}).encode(),
                    tags=TAGS[number * 7 % 10 % len(TAGS)],
                    keys=(f"bulk-{number}",),
                )
                for number in range(start, start + BATCH)
            ]
            producer.send_batch(orders)
    return COUNT


def fill_and_add_up(console: Console, name_server: str, topic: str, scratch: Path) -> None:
    # Loaded here: the chapters before this one need neither.
    from roquet.pipeline.jobs.ingest import IngestPlan, IngestProgress, ingest  # noqa: PLC0415
    from roquet.pipeline.session import spark_session  # noqa: PLC0415

    plan = IngestPlan(
        source={"nameServer": name_server, "topic": topic, "maxOffsetsPerTrigger": "7000"},
        lake=scratch / "lake",
        checkpoint=scratch / "checkpoint",
        available_now=True,
    )
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("Spark is starting, which takes some seconds", total=None)
        with spark_session("roquet demo", "local[2]", conf=QUICK_JVM) as spark:
            progress.update(bar, description="a stream fills the lake", total=COUNT)

            def published(so_far: IngestProgress) -> None:
                progress.update(bar, completed=so_far.messages)

            report = ingest(spark, plan, published)
            progress.update(bar, description="adding up", total=None)
            rows = (
                spark.read.parquet(str(plan.lake))
                .selectExpr("tags", "get_json_object(string(body), '$.amount') AS amount")
                .where("amount IS NOT NULL")
                .groupBy("tags")
                .agg({"tags": "count", "amount": "sum"})
                .orderBy("tags")
                .collect()
            )
    console.print(
        f"a stream of {report.batches} micro-batches put {report.lake_messages} messages into"
        f" {report.lake_files} Parquet files, each of them once"
    )
    table = Table("tag", "orders", "amount", title="the lake, added up by Spark")
    for row in rows:
        table.add_row(row["tags"], f"{row['count(tags)']:,}", f"{row['sum(amount)']:,.0f}")
    console.print(table)
