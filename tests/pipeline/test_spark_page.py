"""The program that docs/spark.md shows piece by piece works; port and place are others."""

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roquet import Message, Producer
from roquet.pipeline.jobs.ingest import IngestPlan, ingest
from roquet.testing.blocking import BlockingCluster
from tests.support.page_blocks import DOCS, blocks_of

PAGE = DOCS / "spark.md"


def test_its_pieces_print_what_was_sent(
    spark: SparkSession,
    cluster: BlockingCluster,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    reading, looking, framing = (
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
    program = reading + looking.replace("lake", str(lake)) + framing
    path.write_text(program.replace("127.0.0.1:9876", cluster.name_server))
    runpy.run_path(str(path))
    *lines, counts, frame_count = capsys.readouterr().out.splitlines()
    cells = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    assert sorted([each.strip() for each in row] for row in cells) == [
        ["new", "2"],
        ["paid", "1"],
        ["tags", "count"],
    ]
    assert counts.split() == ["3", "3", "3"]
    assert frame_count == "3"
