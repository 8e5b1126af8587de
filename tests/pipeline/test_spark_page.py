"""The program that docs/spark.md shows piece by piece works; port and place are others."""

import os
import runpy
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roquet import Message, Producer
from roquet.pipeline.jobs.ingest import IngestPlan, ingest
from roquet.pipeline.session import FILTER_PUSHDOWN
from roquet.testing.blocking import BlockingCluster
from tests.support.page_blocks import DOCS, blocks_of
from tests.support.s3_store import S3Store

PAGE = DOCS / "spark.md"


def test_its_pieces_print_what_was_sent(
    spark: SparkSession,
    cluster: BlockingCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reading, filtering, looking, watching, framing = (
        block.text for block in blocks_of(PAGE) if block.language == "python"
    )
    with Producer(cluster.name_server, "shop") as producer:
        for tags in ("new", "new", "paid"):
            producer.send(Message("orders", b"one coffee", tags=tags))
    lake = tmp_path / "lake"
    plan = IngestPlan(
        source={"nameServer": cluster.name_server, "topic": "orders"},
        lake=lake,
        checkpoint=tmp_path / "checkpoint",
        available_now=True,
    )
    ingest(spark, plan)
    path = tmp_path / "page.py"
    # Spark's own process has a directory of its own to look for the lake in.
    program = reading + filtering + looking.replace("lake", str(lake)) + watching + framing
    path.write_text(program.replace("127.0.0.1:9876", cluster.name_server))
    try:
        runpy.run_path(str(path))
    finally:
        # It is the session of other tests, too.
        spark.conf.unset(FILTER_PUSHDOWN)
    *lines, paid_count, counts, address, frame_count = capsys.readouterr().out.splitlines()
    cells = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    assert sorted([each.strip() for each in row] for row in cells) == [
        ["new", "2"],
        ["paid", "1"],
        ["tags", "count"],
    ]
    assert paid_count == "1"
    assert counts.split() == ["3", "3", "3"]
    assert address.startswith("http://")
    assert frame_count == "3"


@pytest.mark.full("starts Spark as a command does")
@pytest.mark.parametrize("table_format", ["delta", "iceberg"])
def test_its_way_to_a_table_in_s3_works(
    cluster: BlockingCluster, tmp_path: Path, table_format: str
) -> None:
    [block] = [each for each in blocks_of(PAGE) if f"roquet[{table_format},sql]" in each.text]
    with Producer(cluster.name_server, "shop") as producer:
        for tags in ("new", "new", "paid"):
            producer.send(Message("orders", b"one coffee", tags=tags))
    with S3Store() as store:
        environment = {key: each for key, each in os.environ.items() if "PYSPARK" not in key}
        printed = [
            subprocess.run(
                [
                    *(sys.executable, "-c", "from roquet.cli.main import main; main()"),
                    *shlex.split(command.replace("127.0.0.1:9876", cluster.name_server))[1:],
                ],
                cwd=tmp_path,
                env=environment | store.environment,
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            for command in block.commands
        ]
    assert sorted(line.split() for line in printed[-1].splitlines()[2:]) == [
        ["new", "2"],
        ["paid", "1"],
    ]
