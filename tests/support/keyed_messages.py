"""Messages with keys in a lake that is a table, without brokers."""

from datetime import timedelta

import pyarrow as pa

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.lake.entries import QueueIncarnation
from roquet.pipeline.lake.files import MissingRange
from roquet.pipeline.lake.schemas.decoding import BodyDecoder
from roquet.pipeline.lake.staging import StagedWriter
from roquet.pipeline.lake.table import TableLake
from roquet.pipeline.planning import QueueRange
from tests.support.lake_rows import NOON, TOPIC


def add_keyed(
    lake: TableLake,
    queue_id: int,
    start: int,
    *keys: str,
    decoder: BodyDecoder | None = None,
    bad: int | None = None,
    publish: bool = True,
) -> None:
    """From an offset on, each a second after the last; the `id` in a body is its offset.

    The body at the offset `bad` cannot be decoded.
    """
    offsets = range(start, start + len(keys))
    bodies = [b"no" if each == bad else b'{"id": %d}' % each for each in offsets]
    rows = pa.RecordBatch.from_pydict(
        {
            "brokerName": pa.array(["broker-a"] * len(keys)),
            "queueId": pa.array([queue_id] * len(keys), pa.int32()),
            "queueOffset": pa.array(offsets, pa.int64()),
            "keys": pa.array(keys, pa.string()),
            "body": pa.array(bodies, pa.binary()),
            "storeTimestamp": pa.array(
                [NOON + timedelta(seconds=each) for each in offsets], pa.timestamp("us", tz="UTC")
            ),
        }
    )
    queue = QueueRef(TOPIC, "broker-a", queue_id)
    wanted = MissingRange(QueueRange(queue, start, offsets.stop), 0, QueueIncarnation())
    pieces = list(StagedWriter(lake.staging, decoder).write(wanted, [rows]))
    if publish:
        lake.publish(pieces, "id bigint" if decoder else None)
