"""`lag`: the lag of consumer groups in each queue, sampled repeatedly and stored as Parquet.

Brokers know only current offsets; a table of samples shows how they move. Sampling needs no Spark,
and any Parquet reader can read the table.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from roquet.client.blocking.admin import Admin
from roquet.client.queue_ref import QueueRef
from roquet.pipeline.durable_files import make_directories, put_in_place

_SCHEMA: Final = pa.schema(
    [
        ("sampled", pa.timestamp("us", tz="UTC")),
        ("group", pa.string()),
        ("topic", pa.string()),
        ("brokerName", pa.string()),
        ("queueId", pa.int32()),
        ("committed", pa.int64()),
        ("end", pa.int64()),
        ("lag", pa.int64()),
        ("lagMs", pa.int64()),
    ]
)
# One file per sample would be too many, and one for all too late.
_ROWS_A_FILE: Final = 10_000
_AGE_OF_FILE_S: Final = 60


class LagSample(NamedTuple):
    """One queue of a group at one moment; unknown values are None."""

    sampled: datetime
    group: str
    queue: QueueRef
    committed: int | None
    end: int
    lag: int | None
    # The age of the oldest waiting message.
    lag_ms: int | None


class GroupLag(NamedTuple):
    """A group from its first sample to its last."""

    group: str
    queues: int
    samples: int
    lag_first: int
    lag_last: int
    lag_max: int
    lag_ms_max: int | None
    read_per_second: float | None
    sent_per_second: float | None


def take_samples(admin: Admin, groups: Sequence[str], topic: str | None) -> list[LagSample]:
    """Of all groups if `groups` is empty. Raises what the client raises."""
    found = []
    for group in groups or admin.groups():
        progress = admin.progress(group, topic=topic)
        now = datetime.now(UTC)
        for each in progress.queues:
            time_lag = each.time_lag
            found.append(
                LagSample(
                    now,
                    group,
                    each.queue,
                    each.consumer_offset,
                    each.broker_offset,
                    each.lag,
                    None if time_lag is None else round(time_lag.total_seconds() * 1000),
                )
            )
    return found


@final
class LagTable:
    """A directory of Parquet files that samples are added to; a file appears when complete."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._waiting: list[LagSample] = []
        self.row_count = 0
        self.file_count = 0

    def add(self, samples: Iterable[LagSample]) -> None:
        self._waiting += samples
        if len(self._waiting) >= _ROWS_A_FILE or _span_s(self._waiting) >= _AGE_OF_FILE_S:
            self.write()

    def write(self) -> None:
        """Write the waiting samples. Raises OSError."""
        if not self._waiting:
            return
        make_directories(self._directory)
        first = self._waiting[0].sampled
        name = f"lag-{first:%Y%m%dT%H%M%S}-{uuid4().hex[:8]}.parquet"
        draft = self._directory / f".{name}"
        pq.write_table(sample_table(self._waiting), draft, compression="zstd")
        put_in_place(draft, self._directory / name)
        self.row_count += len(self._waiting)
        self.file_count += 1
        self._waiting = []


@final
class LagHistory:
    """A running summary of samples, of constant size."""

    def __init__(self) -> None:
        self.sample_count = 0
        self._groups: dict[str, _Span] = {}

    def add(self, samples: Sequence[LagSample]) -> None:
        self.sample_count += 1
        for group in {each.group for each in samples}:
            moment = _moment_of([each for each in samples if each.group == group])
            span = self._groups.get(group, _Span(moment, moment, moment.lag, moment.lag_ms))
            self._groups[group] = span._replace(
                last=moment,
                lag_max=max(span.lag_max, moment.lag),
                lag_ms_max=max((span.lag_ms_max, moment.lag_ms), key=lambda each: each or 0),
            )

    def groups(self) -> list[GroupLag]:
        return [
            _group_lag(group, span, self.sample_count)
            for group, span in sorted(self._groups.items())
        ]


class _Moment(NamedTuple):
    """A group over all its queues. Queues without a committed offset do not count as read."""

    sampled: datetime
    queues: int
    committed: int
    end: int
    lag: int
    lag_ms: int | None


class _Span(NamedTuple):
    first: _Moment
    last: _Moment
    lag_max: int
    lag_ms_max: int | None


def sample_table(samples: Sequence[LagSample]) -> pa.Table:
    columns = [
        [each.sampled for each in samples],
        [each.group for each in samples],
        [each.queue.topic for each in samples],
        [each.queue.broker_name for each in samples],
        [each.queue.queue_id for each in samples],
        [each.committed for each in samples],
        [each.end for each in samples],
        [each.lag for each in samples],
        [each.lag_ms for each in samples],
    ]
    return pa.Table.from_arrays(
        [pa.array(values, kind) for values, kind in zip(columns, _SCHEMA.types, strict=True)],
        schema=_SCHEMA,
    )


def _moment_of(samples: Sequence[LagSample]) -> _Moment:
    read = [each for each in samples if each.committed is not None]
    return _Moment(
        samples[0].sampled,
        len(samples),
        sum(each.committed or 0 for each in read),
        sum(each.end for each in read),
        sum(each.lag or 0 for each in samples),
        max((each.lag_ms for each in samples if each.lag_ms is not None), default=None),
    )


def _group_lag(group: str, span: _Span, sample_count: int) -> GroupLag:
    first, last = span.first, span.last
    elapsed_s = (last.sampled - first.sampled).total_seconds()
    return GroupLag(
        group,
        last.queues,
        sample_count,
        first.lag,
        last.lag,
        span.lag_max,
        span.lag_ms_max,
        (last.committed - first.committed) / elapsed_s if elapsed_s > 0 else None,
        (last.end - first.end) / elapsed_s if elapsed_s > 0 else None,
    )


def _span_s(samples: Sequence[LagSample]) -> float:
    return (samples[-1].sampled - samples[0].sampled).total_seconds() if samples else 0.0
