"""`export` and `replay`: some messages of a topic or a lake, as files or sent again."""

import csv
import json
import shlex
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from roquet import Message, Producer, TopicReader
from roquet.pipeline.jobs.ingest import IngestPlan, ingest
from roquet.protocol.messages.record import split_records
from roquet.testing.blocking import BlockingCluster
from tests.support.job_commands import JobCommands

COUNT = 60


@pytest.fixture(scope="module")
def shop() -> Iterator[BlockingCluster]:
    """A topic `orders` with some messages."""
    with BlockingCluster() as cluster:
        cluster.new_topic("orders", queues=3)
        with Producer(cluster.name_server, "sellers") as producer:
            producer.send_many(
                Message(
                    "orders",
                    b"\xff\x00%d" % number if number == 7 else b"order %d" % number,
                    tags=("Aa", "BB", None)[number % 3],
                    keys=(f"key-{number}", f"shop-{number % 2}"),
                    properties={"price": str(number)},
                )
                for number in range(COUNT)
            )
        yield cluster


@pytest.fixture(scope="module")
def lake(
    shop: BlockingCluster, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """What `orders` has."""
    directory = tmp_path_factory.mktemp("lake")
    source = {"nameServer": shop.name_server, "topic": "orders"}
    plan = IngestPlan(
        source=source,
        lake=directory / "lake",
        checkpoint=directory / "checkpoint",
        available_now=True,
    )
    assert ingest(spark, plan).messages == COUNT
    return directory / "lake"


@pytest.fixture
def command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> JobCommands:
    return JobCommands(spark, monkeypatch)


def bodies(cluster: BlockingCluster, topic: str) -> Counter[bytes]:
    with TopicReader(cluster.name_server) as reader:
        return Counter(
            message.body
            for queue, (start, end) in reader.bounds(reader.queues(topic)).items()
            for chunk in reader.records(queue, start, end)
            for message in split_records(chunk.data)
        )


# Export.


def test_messages_of_a_topic_become_lines_of_json(
    command: JobCommands, shop: BlockingCluster, tmp_path: Path
) -> None:
    chosen = ("--tags", "Aa", "--where", "properties['price'] < 10", "--columns", "tags,body,keys")
    report = command.json(
        *("export", "-n", shop.name_server, "--topic", "orders", *chosen),
        *("--to", tmp_path / "files", "--format", "json", "--body", "text"),
    )
    lines = [
        json.loads(line)
        for file in (tmp_path / "files").glob("*.json")
        for line in file.read_text().splitlines()
    ]
    assert sorted(line["body"] for line in lines) == [f"order {n}" for n in (0, 3, 6, 9)]
    assert {line["tags"] for line in lines} == {"Aa"}
    assert set(lines[0]) == {"tags", "body", "keys"}
    assert report["messages"] == 4
    assert report["files"] >= 1


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_messages_of_a_lake_become_csv_with_bodies_in_base64(
    command: JobCommands, lake: Path, tmp_path: Path
) -> None:
    keys = ("--key", "key-7", "--key", "key-8")
    report = command.json("export", "--lake", lake, *keys, "--to", tmp_path / "f", "--format=csv")
    files = (each.read_text().splitlines() for each in (tmp_path / "f").glob("*.csv"))
    rows = [row for lines in files for row in csv.DictReader(lines)]
    assert sorted(b64decode(row["body"]) for row in rows) == [b"order 8", b"\xff\x007"]
    assert {row["topic"] for row in rows} == {"orders"}
    assert json.loads(rows[0]["properties"])["price"] in {"7", "8"}
    assert report["messages"] == 2


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_what_is_no_text_is_shown_as_such(command: JobCommands, lake: Path, tmp_path: Path) -> None:
    chosen = ("--key", "key-7", "--body", "text", "--columns", "body")
    command.json("export", "--lake", lake, *chosen, "--to", tmp_path / "f", "--format=json")
    (line,) = "".join(file.read_text() for file in (tmp_path / "f").glob("*.json")).splitlines()
    assert json.loads(line)["body"] == "�\x007"


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_a_topic_as_parquet_is_the_lake_as_parquet(
    command: JobCommands, shop: BlockingCluster, lake: Path, tmp_path: Path
) -> None:
    one_file = ("--format", "parquet", "--max-files", "1", "--to")
    topic = ("-n", shop.name_server, "--topic", "orders")
    command.json("export", *topic, *one_file, tmp_path / "topic")
    command.json("export", "--lake", lake, *one_file, tmp_path / "lake")
    tables = [
        pq.read_table(tmp_path / name).sort_by(
            [("queueId", "ascending"), ("queueOffset", "ascending")]
        )
        for name in ("topic", "lake")
    ]
    assert tables[0].num_rows == COUNT
    assert tables[0].to_pylist() == tables[1].to_pylist()


def test_a_directory_that_is_there_is_not_touched(
    command: JobCommands, lake: Path, tmp_path: Path
) -> None:
    finished = command("export", "--lake", lake, "--to", tmp_path)
    assert finished.exit_code == 1
    assert "already exists" in finished.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.full("what unit tests show without Spark, once more through it")
def test_a_bad_condition_is_one_line_and_leaves_nothing(
    command: JobCommands, lake: Path, tmp_path: Path
) -> None:
    finished = command("export", "--lake", lake, "--where", "prize > 3", "--to", tmp_path / "f")
    assert finished.exit_code == 1
    assert "prize" in finished.stderr.splitlines()[-1]
    assert "Traceback" not in finished.stderr
    assert not list(tmp_path.iterdir())


# Replay.


def test_without_yes_nothing_is_sent_and_all_is_shown(
    command: JobCommands, shop: BlockingCluster
) -> None:
    again = shop.new_topic()
    report = command.json(
        *("replay", "-n", shop.name_server, "--topic", "orders", "--tags", "Aa", "--to", again)
    )
    assert not report["is_sent"]
    assert report["messages"] == COUNT // 3
    assert [row["tags"] for row in report["by_topic"]] == ["Aa"]
    assert report["first_messages"][0]["body"].startswith("order ")
    assert bodies(shop, again) == Counter()


def test_the_command_that_is_shown_sends_just_that_and_once(
    command: JobCommands, shop: BlockingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, again = shop.new_topic(), shop.new_topic()
    with Producer(shop.name_server, "sellers") as producer:
        producer.send_many(Message(source, b"%d" % number) for number in range(COUNT))
        words = ("spark", "replay", "-n", shop.name_server, "--topic", source, "--to", again)
        monkeypatch.setattr("sys.argv", ["roquet", *words])
        shown = command.json(*words[1:])
        producer.send(Message(source, b"too late"))
    for _ in range(2):
        sent = command.json(*shlex.split(shown["command"])[2:])
        assert sent["is_sent"]
        assert sent["write_id"] == shown["write_id"]
        assert bodies(shop, again) == Counter(b"%d" % number for number in range(COUNT))


def test_messages_of_a_lake_are_sent_with_all_that_is_theirs(
    command: JobCommands, shop: BlockingCluster, lake: Path
) -> None:
    again = shop.new_topic(queues=4)
    chosen = ("--lake", lake, "--to", again, "--keep-order", "--rate", "1000", "--yes")
    assert command.json("replay", "-n", shop.name_server, *chosen)["messages"] == COUNT
    with TopicReader(shop.name_server) as reader:
        sent = {
            topic: {
                queue.queue_id: [
                    (each.body, each.tags, each.keys, each.properties["price"])
                    for chunk in reader.records(queue, *span)
                    for each in split_records(chunk.data)
                ]
                for queue, span in reader.bounds(reader.queues(topic)).items()
            }
            for topic in ("orders", again)
        }
    # Each queue of the one, in its order, within some queue of the other.
    for messages in sent["orders"].values():
        (place,) = (each for each in sent[again].values() if messages[0] in each)
        assert [each for each in place if each in messages] == messages


def test_a_topic_that_is_not_there_is_reported_before_spark_starts(
    command: JobCommands, shop: BlockingCluster
) -> None:
    finished = command(
        "replay", "-n", shop.name_server, "--topic", "orders", "--to", "nobodys", "--yes"
    )
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
    assert "nobodys" in finished.stderr
