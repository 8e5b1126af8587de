"""How far a stream is behind, by what Spark tells of its progress. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.stream_offset import StreamOffset


def lag_told(progress: Mapping[str, Any]) -> int | None:
    """Messages that are there and were not read, over all sources; None if it is not told."""
    sources: Sequence[Mapping[str, Any]] = progress["sources"]
    lags = [_source_lag(source.get("endOffset"), source.get("latestOffset")) for source in sources]
    return None if not lags or None in lags else sum(lag for lag in lags if lag is not None)


def _source_lag(end: str | None, latest: str | None) -> int | None:
    position, ends = _positions(end), _positions(latest)
    if position is None or ends is None:
        return None
    return sum(max(0, offset - position.get(queue, 0)) for queue, offset in ends.items())


def _positions(told: str | None) -> Mapping[QueueRef, int] | None:
    # A source that says nothing is told as nothing, or as the text "null".
    offset = None if told is None else msgspec.json.decode(told)
    return None if offset is None else StreamOffset.from_json(offset).positions
