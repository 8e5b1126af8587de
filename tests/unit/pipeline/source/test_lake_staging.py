"""The stream behind `ingest`, driven as Spark drives it, but without Spark."""

import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.dataset as ds
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from roquet.client.blocking.admin import Admin
from roquet.client.blocking.producer import Producer
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import DataLoss
from roquet.pipeline.lake.entries import LakePiece
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.lake.metadata import LakeSettings
from roquet.pipeline.source.lake_staging import StagingReader, StagingSource
from roquet.protocol.messages.message import Message
from roquet.testing.blocking import BlockingCluster

FILE_ROWS_MAX = 40


@pytest.fixture
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as running:
        yield running


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with Lake.open(tmp_path / "lake", LakeSettings(file_rows_max=FILE_ROWS_MAX)) as opened:
        yield opened


def send(cluster: BlockingCluster, topic: str, count: int) -> Counter[tuple[int, int]]:
    with Producer(cluster.name_server, "sellers") as producer:
        receipts = [producer.send(Message(topic, b"%d" % each)) for each in range(count)]
    return Counter((each.queue.queue_id, each.queue_offset) for each in receipts)


def reader_of(cluster: BlockingCluster, lake: Lake, topic: str, **more: str) -> StagingReader:
    options = {
        "nameServer": cluster.name_server,
        "topic": topic,
        "startingOffsets": "earliest",
        "lake": str(lake.path),
        "run": lake.run,
        "fileRowsMax": str(lake.settings.file_rows_max),
        **more,
    }
    source = StagingSource(options)
    reader = source.streamReader(source.schema())
    assert isinstance(reader, StagingReader)
    return reader


def stage(reader: StagingReader, start: dict[str, Any], end: dict[str, Any]) -> list[LakePiece]:
    return [
        msgspec.json.decode(row, type=LakePiece)
        for partition in reader.partitions(start, end)
        for batch in reader.read(partition)
        for row in batch.column(0).to_pylist()
    ]


def next_batch(
    reader: StagingReader, start: dict[str, Any], limit: ReadLimit | None = None
) -> dict[str, Any]:
    return reader.latestOffset(start, limit or ReadAllAvailable())


def found_in(lake: Lake) -> Counter[tuple[int, int]]:
    table = ds.dataset(lake.path, format="parquet", partitioning="hive").to_table()
    return Counter(zip(table["queueId"].to_pylist(), table["queueOffset"].to_pylist(), strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_batches_that_are_killed_repeated_and_planned_again_add_each_message_once(
    cluster: BlockingCluster, lake: Lake, seed: int
) -> None:
    rng = random.Random(seed)
    topic = cluster.new_topic("orders", queues=3)
    sent = send(cluster, topic, 300)
    reader = reader_of(cluster, lake, topic)
    start = reader.initialOffset()
    batches: list[tuple[dict[str, Any], dict[str, Any]]] = []
    while (end := next_batch(reader, start, ReadMaxRows(rng.randint(20, 120)))) != start:
        staged = stage(reader, start, end)
        if rng.random() < 0.3:
            # Killed before it published; another process plans for other cores.
            reader = reader_of(cluster, lake, topic, maxRecordsPerPartition=str(rng.randint(5, 60)))
            staged = stage(reader, start, end)
        lake.publish(staged)
        batches.append((start, end))
        if rng.random() < 0.3:
            # Published, but Spark does not know.
            assert stage(reader, start, end) == []
        if rng.random() < 0.2:
            # The checkpoint is lost.
            reader = reader_of(cluster, lake, topic)
            end = reader.initialOffset()
        start = end
    assert found_in(lake) == sent
    for path in lake.state.files:
        first, last = map(int, Path(path).stem.split("-")[-2:])
        assert first // FILE_ROWS_MAX == (last - 1) // FILE_ROWS_MAX


def test_what_a_filter_leaves_out_is_not_asked_for_again(
    cluster: BlockingCluster, lake: Lake
) -> None:
    topic = cluster.new_topic("orders", queues=1)
    send(cluster, topic, 10)
    reader = reader_of(cluster, lake, topic, tagExpression="paid")
    start = reader.initialOffset()
    end = next_batch(reader, start)
    lake.publish(stage(reader, start, end))
    assert not lake.state.files
    assert lake.state.covered(QueueRef(topic, "broker-a", 0)) == [(0, 10)]
    assert stage(reader, start, end) == []


def test_a_topic_created_again_is_refused_or_taken_in_beside_the_old_one(
    cluster: BlockingCluster, lake: Lake
) -> None:
    topic = cluster.new_topic("orders", queues=1)
    send(cluster, topic, 10)
    reader = reader_of(cluster, lake, topic)
    start = reader.initialOffset()
    lake.publish(stage(reader, start, next_batch(reader, start)))
    with Admin(cluster.name_server) as admin:
        admin.delete_topic(topic)
    cluster.clock.advance(timedelta(hours=1))
    cluster.new_topic(topic, queues=1)
    send(cluster, topic, 6)

    # The checkpoint does not know of the first one; the lake does.
    careful = reader_of(cluster, lake, topic)
    start = careful.initialOffset()
    with pytest.raises(DataLoss, match="deleted and created again"):
        stage(careful, start, next_batch(careful, start))
    easy = reader_of(cluster, lake, topic, failOnDataLoss="false")
    start = easy.initialOffset()
    lake.publish(stage(easy, start, next_batch(easy, start)))
    assert sum(found_in(lake).values()) == 16
    assert stage(easy, start, next_batch(easy, start)) == []


def test_bodies_are_decoded_by_the_schema_and_what_does_not_fit_is_counted_apart(
    cluster: BlockingCluster, lake: Lake
) -> None:
    topic = cluster.new_topic("orders", queues=1)
    send(cluster, topic, 10)
    with Producer(cluster.name_server, "sellers") as producer:
        producer.send(Message(topic, b'{"price": 5}'))
    reader = reader_of(cluster, lake, topic, bodySchema="price int")
    start = reader.initialOffset()
    lake.publish(stage(reader, start, next_batch(reader, start)), "price int")
    assert (lake.state.row_count, lake.state.quarantined_count) == (1, 10)
    assert lake.state.covered(QueueRef(topic, "broker-a", 0)) == [(0, 11)]
    table = ds.dataset(lake.path, format="parquet", partitioning="hive").to_table()
    assert table["price"].to_pylist() == [5]
