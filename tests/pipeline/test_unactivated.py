"""A program that is started by the Python of an environment that no shell has activated."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from roquet import Message, Producer
from roquet.testing.blocking import BlockingCluster

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from roquet.pipeline import register

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
register(spark)
orders = spark.read.format("rocketmq").option("nameServer", sys.argv[1]).option("topic", "orders")
print([bytes(row.body) for row in orders.load().select("body").collect()])
"""
TIMEOUT_S = 240


@pytest.mark.java
def test_workers_use_the_python_of_the_program(cluster: BlockingCluster, tmp_path: Path) -> None:
    with Producer(cluster.name_server, "shop") as producer:
        producer.send(Message("orders", b"one tea"))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    ended = subprocess.run(
        [sys.executable, str(program), cluster.name_server],
        # Whatever python3 is found there has no roquet.
        env={**kept, "PATH": "/usr/bin:/bin", "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert ended.stdout == "[b'one tea']\n", ended.stderr
