"""`roquet spark lag` and `package` as a person sees them."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from roquet import Message, Producer, QueueRef, TopicReader
from roquet.pipeline.jobs.package import LIBRARIES
from roquet.testing.blocking import BlockingCluster
from tests.support.command_line import roquet

QUEUE = QueueRef("orders", "broker-a", 0)


@pytest.fixture(scope="module")
def shop() -> Iterator[BlockingCluster]:
    with BlockingCluster() as cluster:
        cluster.new_topic("orders", queues=1)
        with Producer(cluster.name_server, "sellers") as producer:
            for number in range(5):
                producer.send(Message("orders", b"%d" % number))
        with TopicReader(cluster.name_server) as reader:
            reader.commit("billing", {QUEUE: 3})
        yield cluster


def test_once_is_a_table(shop: BlockingCluster) -> None:
    finished = roquet("spark", "lag", "-n", shop.name_server, "--group", "billing", "--once")
    assert finished.exit_code == 0
    (row,) = (line.split() for line in finished.stdout.splitlines() if " orders " in line)
    assert row[:7] == ["billing", "orders", "broker-a", "0", "3", "5", "2"]


def test_several_samples_are_lines_of_json_and_rows_of_parquet(
    shop: BlockingCluster, tmp_path: Path
) -> None:
    finished = roquet(
        *("spark", "lag", "-n", shop.name_server, "--group", "billing", "--topic", "orders"),
        *("--samples", "3", "--interval", "10ms", "--to", tmp_path / "lag", "--json"),
    )
    assert finished.exit_code == 0
    *samples, summary = (json.loads(line) for line in finished.stdout.splitlines())
    assert [sample["queues"][0]["lag"] for sample in samples] == [2, 2, 2]
    assert summary["samples"] == 3
    assert summary["groups"][0]["lag_last"] == 2
    assert "3 rows in 1 files" in finished.stderr
    assert ds.dataset(tmp_path / "lag").to_table()["lag"].to_pylist() == [2, 2, 2]


@pytest.mark.parametrize(
    "words", [("--once", "--watch"), ("--interval", "soon"), ("--interval", "1s")]
)
def test_what_cannot_be_meant_is_refused(shop: BlockingCluster, words: tuple[str, ...]) -> None:
    finished = roquet("spark", "lag", "-n", shop.name_server, *words)
    assert finished.exit_code == 2
    assert words[0] in finished.stderr


def test_a_cluster_that_is_not_there_is_one_line() -> None:
    finished = roquet("spark", "lag", "-n", "127.0.0.1:1", "--group", "billing")
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1


def test_an_archive_that_cannot_be_written_is_reported_in_one_line(tmp_path: Path) -> None:
    finished = roquet("spark", "package", tmp_path / "site.tar")
    assert finished.exit_code == 1
    assert finished.stderr.splitlines()[-1].endswith("must end in .zip: Spark unpacks by the name")


@pytest.mark.slow
def test_a_package_says_how_it_is_used(tmp_path: Path) -> None:
    without = [word for name in LIBRARIES for word in ("--without", name)]
    finished = roquet("spark", "package", tmp_path / "site.zip", *without)
    assert finished.exit_code == 0
    assert f"--archives {tmp_path}/site.zip#site" in finished.stderr
