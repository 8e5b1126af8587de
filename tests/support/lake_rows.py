"""Lakes with real messages in them, without brokers and Spark, and what readers find there."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.lake.compaction import planned_compactions, write_compaction
from roquet.pipeline.lake.entries import LakePiece, QueueIncarnation
from roquet.pipeline.lake.files import MissingRange
from roquet.pipeline.lake.opening import OpenLake
from roquet.pipeline.lake.schemas.decoding import BodyDecoder
from roquet.pipeline.lake.staging import StagedWriter
from roquet.pipeline.planning import QueueRange

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)
TOPIC = "orders"
# Queue and offset of messages, and how often they are there.
Found = Counter[tuple[int, int]]


def message_batch(
    queue_id: int, offsets: Sequence[int], hour: int = 0, bodies: Sequence[bytes] | None = None
) -> pa.RecordBatch:
    stored = [NOON + timedelta(hours=hour, seconds=offset % 3600) for offset in offsets]
    return pa.RecordBatch.from_pydict(
        {
            "queueId": pa.array([queue_id] * len(offsets), pa.int32()),
            "queueOffset": pa.array(offsets, pa.int64()),
            "body": pa.array(bodies or [b"%d" % offset for offset in offsets], pa.binary()),
            "storeTimestamp": pa.array(stored, pa.timestamp("us", tz="UTC")),
        }
    )


def staged_rows(
    lake: OpenLake, rows: pa.RecordBatch, decoder: BodyDecoder | None = None
) -> list[LakePiece]:
    """The rows of one queue and hour, as a task stages them."""
    offsets = rows.column("queueOffset").to_pylist()
    queue = QueueRef(TOPIC, "broker-a", rows.column("queueId")[0].as_py())
    wanted = MissingRange(QueueRange(queue, offsets[0], offsets[-1] + 1), 0, QueueIncarnation())
    return list(StagedWriter(lake.staging, decoder).write(wanted, [rows]))


def publish_small_files(lake: OpenLake, *, hours: int, files: int, rows: int) -> Found:
    """Of two queues, for each hour as many files with as many rows; what is in them."""
    sent: Found = Counter()
    for queue_id in range(2):
        for number in range(hours * files):
            offsets = range(number * rows, (number + 1) * rows)
            batch = message_batch(queue_id, offsets, hour=number // files)
            lake.publish(staged_rows(lake, batch))
            sent.update((queue_id, offset) for offset in offsets)
    return sent


def compact_all(lake: OpenLake, target_size: int = 1 << 30) -> int:
    """All hours, one after the other, each with an entry of its own; how many."""
    wanted = planned_compactions(lake.files(), NOON + timedelta(days=9), target_size)
    for compaction in wanted:
        number = lake.state.entry_number + 1
        lake.compact([write_compaction(lake.staging, compaction, (number, 0))])
    return len(wanted)


def found_by_arrow(lake: Path) -> Found:
    table = ds.dataset(lake, format="parquet", partitioning="hive").to_table(
        columns=["queueId", "queueOffset"]
    )
    return Counter(zip(table["queueId"].to_pylist(), table["queueOffset"].to_pylist(), strict=True))


def found_by_duckdb(lake: Path) -> Found:
    """In every directory below."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            "select queueId, queueOffset from read_parquet(?, hive_partitioning = true)",
            [f"{lake}/**/*.parquet"],
        ).fetchall()
    return Counter((queue_id, offset) for queue_id, offset in rows)
