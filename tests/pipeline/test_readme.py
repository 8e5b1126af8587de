"""README's Spark program works as it stands, and so does the first job of docs/spark.md."""

import runpy
import shlex
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from roquet import Message, Producer
from roquet.testing.blocking import BlockingCluster
from tests.support.job_commands import JobCommands
from tests.support.page_blocks import DOCS
from tests.support.readme_blocks import block_with, program


def test_orders_are_counted_and_put_into_a_lake(
    spark: SparkSession,
    cluster: BlockingCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Producer(cluster.name_server, "shop") as producer:
        for tags in ("new", "new", "paid"):
            producer.send(Message("orders", b"one coffee", tags=tags))
    path = tmp_path / "count_orders.py"
    path.write_text(program("count_orders.py").text.replace("127.0.0.1:9876", cluster.name_server))
    runpy.run_path(str(path))
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert sorted(rows) == [["new", "2"], ["paid", "1"], ["tags", "count"]]
    ingest = block_with("--checkpoint checkpoint --available-now", DOCS / "spark.md").commands[0]
    monkeypatch.chdir(tmp_path)
    words = shlex.split(ingest.replace("127.0.0.1:9876", cluster.name_server))
    assert words[:2] == ["roquet", "spark"]
    finished = JobCommands(spark, monkeypatch)(*words[2:])
    assert finished.exit_code == 0, finished.stderr
    assert ds.dataset("lake", format="parquet", partitioning="hive").count_rows() == 3
    written = {each.name for each in Path("checkpoint").rglob("*") if each.is_file()}
    assert "metadata" in written
    assert [name for name in written if name.endswith(".crc")] == []
