"""Pieces of a lake for tests: some with a staged file that holds what they say."""

from pathlib import Path

import msgspec

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.lake.entries import LakePiece, QueueIncarnation
from roquet.pipeline.lake.files import MissingRange, published_path, staged_path
from roquet.pipeline.lake.lake import Lake
from roquet.pipeline.planning import QueueRange

QUEUE = QueueRef("orders", "broker-a", 0)
HOUR = 480_000
UNKNOWN = QueueIncarnation()


def wanted(
    start: int, end: int, generation: int = 0, incarnation: QueueIncarnation = UNKNOWN
) -> MissingRange:
    return MissingRange(QueueRange(QUEUE, start, end), generation, incarnation)


def piece(
    start: int, end: int, *, generation: int = 0, incarnation: QueueIncarnation = UNKNOWN
) -> LakePiece:
    whole = wanted(start, end, generation, incarnation)
    return LakePiece(
        topic=QUEUE.topic,
        broker=QUEUE.broker_name,
        queue=QUEUE.queue_id,
        start=start,
        end=end,
        rows=end - start,
        bytes=0,
        path=published_path(whole, start, end, HOUR),
        staged=staged_path("run"),
        generation=generation,
        incarnation=incarnation,
    )


def staged(lake: Lake, start: int, end: int, content: bytes = b"PAR1") -> LakePiece:
    """A piece whose file is there."""
    name = staged_path(lake.run)
    path = lake.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    made = piece(start, end)
    return msgspec.structs.replace(made, bytes=len(content), staged=name)


def parquet_names(lake: Path) -> list[str]:
    """What a reader that looks for Parquet by name finds, anywhere below."""
    return sorted(path.name for path in lake.glob("**/*.parquet"))
