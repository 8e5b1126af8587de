"""Where a streaming query is, by the reports that Spark gives of each micro-batch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

import msgspec

from roquet.client.queue_ref import QueueRef
from roquet.notebook_html import Point, facts_html, line_svg
from roquet.pipeline.errors import PipelineError
from roquet.pipeline.queue_offsets import StreamOffset

Positions = Mapping[QueueRef, int]

# A source without an offset is reported as none, or as one of these texts.
_NO_OFFSET: Final = ("null", "None")


class SourcePositions(NamedTuple):
    """One source of ours: where the batch started and ended, and the ends of its queues then."""

    start: Positions
    end: Positions
    latest: Positions

    @property
    def lag(self) -> int:
        return sum(max(0, offset - self.end.get(queue, 0)) for queue, offset in self.latest.items())


def reported_positions(progress: Mapping[str, Any]) -> list[SourcePositions]:
    """Of the sources that are ours and have read."""
    return list(_positions_of(progress["sources"]))


def reported_lag(progress: Mapping[str, Any]) -> int | None:
    """Messages that are stored and not read, over all sources; None if Spark does not report it."""
    found = reported_positions(progress)
    if not found or len(found) < len(progress["sources"]):
        return None
    return sum(each.lag for each in found)


class QueryLag(NamedTuple):
    """Messages that were stored and not read at the end of each of the last micro-batches."""

    name: str
    points: list[Point]

    def _repr_html_(self) -> str:
        """In a notebook: the lag over time."""
        last = self.points[-1].value if self.points else None
        return facts_html({"query": self.name, "lag": last}) + line_svg(self.points)


def lag_of(name: str, reports: Iterable[Mapping[str, Any]]) -> QueryLag:
    """By what Spark reported of each micro-batch."""
    found = ((each["timestamp"], reported_lag(each)) for each in reports)
    return QueryLag(
        name,
        [Point(datetime.fromisoformat(at), float(lag)) for at, lag in found if lag is not None],
    )


def _positions_of(sources: Sequence[Mapping[str, Any]]) -> Iterator[SourcePositions]:
    for source in sources:
        start, end, latest = (
            _offset(source.get(name)) for name in ("startOffset", "endOffset", "latestOffset")
        )
        if end is not None and latest is not None:
            yield SourcePositions(start or {}, end, latest)


def _offset(reported: str | None) -> Positions | None:
    if reported is None or reported in _NO_OFFSET:
        return None
    try:
        return StreamOffset.from_json(msgspec.json.decode(reported, type=dict[str, Any])).positions
    except (msgspec.DecodeError, PipelineError):
        # Of another format, in a query with several sources.
        return None
