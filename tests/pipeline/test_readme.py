"""The program for Spark that README shows works as it stands; only its port is another."""

import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from roquet import Message, Producer
from roquet.testing.blocking import BlockingCluster
from tests.support.readme_blocks import program


def test_orders_are_counted(
    spark: SparkSession,
    cluster: BlockingCluster,
    tmp_path: Path,
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
