"""The newest rows of a lake by key, brought up to what the lake has: a part of `ingest`.

Two stages of tasks: the newest rows of each file, by buckets of keys; then each bucket, with the
rows that it had.
"""

import logging
import time
from collections.abc import Iterator, Sequence
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple, final

import pyarrow as pa
from pyspark.sql import SparkSession

from roquet.pipeline.errors import BadOption
from roquet.pipeline.lake.entries import LakeFile
from roquet.pipeline.lake.files import KeyBucket, bucket_of, topic_of
from roquet.pipeline.lake.latest import (
    LatestStep,
    check_key,
    in_buckets,
    newest,
    planned_step,
    read_newest,
    write_bucket,
)
from roquet.pipeline.lake.metadata import LakeFormat, LakeSettings
from roquet.pipeline.lake.opening import check_latest_key, create_latest, lake_schema
from roquet.pipeline.lake.places import LakePlace, beside
from roquet.pipeline.lake.staging import LATEST_SUFFIX, TableStaging
from roquet.pipeline.lake.table import CommitRefused, Rewrite, TableLake, until_accepted
from roquet.pipeline.lake.table_offsets import reprocessed_ranges
from roquet.pipeline.queries import run_query

log = logging.getLogger(__name__)

# Each step replaces files; readers of older versions have as much time.
_EXPIRY: Final = timedelta(days=1)
_EXPIRED_EVERY_S: Final = 3600.0


class _Work(NamedTuple):
    """What tasks know."""

    lake: LakePlace
    key: str
    step: LatestStep


@final
class LatestRows:
    """Keeps the table up to date, in at most half of the time."""

    def __init__(self, spark: SparkSession, lake: TableLake, key: str) -> None:
        """Raises BadLake, also if the lake has the newest rows by another key."""
        self._spark = spark
        self._lake = create_latest(lake, key)
        self._key = key
        self._due_s = 0.0
        self._expiry_due_s = 0.0

    def update_if_due(self) -> None:
        """Steps cost more the more keys there are, so some micro-batches share one."""
        if time.monotonic() >= self._due_s:
            self.update()

    def update(self) -> None:
        """Everything that the lake has. Raises BadLake and QueryFailed."""
        started_s = time.monotonic()
        until_accepted(self._lake.place, self._step)
        now_s = time.monotonic()
        self._due_s = now_s + (now_s - started_s)
        if now_s >= self._expiry_due_s:
            self._expiry_due_s = now_s + _EXPIRED_EVERY_S
            assert self._lake.latest is not None
            until_accepted(self._lake.place, partial(self._lake.latest.expire, _EXPIRY))

    def _step(self) -> None:
        table, latest = self._lake.table, self._lake.latest
        assert latest is not None
        before = latest.refresh()
        state = table.refresh()
        if latest.body_schema() != (schema := table.body_schema()):
            # Columns first: they refuse the commit, and files of a refused one are left behind.
            latest.rewrite(Rewrite([], [], body_schema=schema))
        lacking = reprocessed_ranges(table.offsets()) - reprocessed_ranges(latest.offsets())
        step = planned_step(state, table.files(), before, latest.files(), sorted(lacking))
        if step is None:
            return
        written = _written(self._spark, _Work(self._lake.place, self._key, step))
        removed = step.replaced_by(bucket_of(each.path) for each in written)
        marks = {each.name: each.end for each in step.reprocessed}
        latest.rewrite(Rewrite(removed, written, step.covered, marks=marks))
        log.info("newest rows: %d files in place of %d", len(written), len(removed))


def check_latest(
    place: LakePlace, settings: LakeSettings, bodies: pa.Schema | None, key: str
) -> None:
    """Before the lake exists; `bodies` are None if the first messages decide the columns.

    Raises BadOption, BadSchema and BadLake.
    """
    if settings.format is LakeFormat.PARQUET:
        raise BadOption(
            "latest-by",
            "plain Parquet cannot replace rows: use a lake of --format delta or iceberg",
        )
    if bodies is not None:
        check_key(pa.schema([*lake_schema(settings), *bodies]), key, "latest-by")
    check_latest_key(place, key)


def _written(spark: SparkSession, work: _Work) -> list[LakeFile]:
    """Raises CommitRefused if files were removed meanwhile, QueryFailed and BadLake."""
    if not work.step.sources:
        return []
    context = spark.sparkContext
    resized = [
        (KeyBucket(topic, number, work.step.bucket_counts[topic]), b"")
        for topic in work.step.resized
        for number in range(work.step.bucket_counts[topic])
    ]
    tasks = min(sum(work.step.bucket_counts.values()), context.defaultParallelism)

    def run() -> list[LakeFile | None]:
        sources = context.parallelize(work.step.sources).flatMap(partial(_read, work))
        rows = sources.union(context.parallelize(resized)) if resized else sources
        by_bucket = rows.groupByKey(tasks, _number_of)
        return by_bucket.map(lambda each: _write(work, each[0], list(each[1]))).collect()

    found = run_query(run)
    if None in found:
        raise CommitRefused(f"{work.lake}: another process removed files of the lake meanwhile")
    return [each for each in found if each is not None and each.rows]


def _number_of(bucket: KeyBucket) -> int:
    return bucket.number


_GONE: Final = b"gone"


def _read(work: _Work, path: str) -> Iterator[tuple[KeyBucket, bytes]]:
    """The newest rows of a file, as Arrow writes them."""
    topic = topic_of(path)
    count = work.step.bucket_counts[topic]
    try:
        with TableStaging(work.lake).read(path) as file:
            rows = read_newest(file, work.key, by_time=topic in work.step.by_time)
    except FileNotFoundError:
        yield KeyBucket(topic, 0, count), _GONE
        return
    for bucket, its_rows in in_buckets(rows, work.key, topic, count):
        yield bucket, _packed(its_rows)


def _write(work: _Work, bucket: KeyBucket, packed: Sequence[bytes]) -> LakeFile | None:
    """None if a file is gone."""
    place = beside(work.lake, LATEST_SUFFIX)
    if _GONE in packed:
        return None
    tables = [pa.ipc.open_stream(each).read_all() for each in packed if each]
    try:
        for path in work.step.old_paths(bucket):
            with TableStaging(place).read(path) as file:
                old = in_buckets(file.read(), work.key, bucket.topic, bucket.total)
                tables += [rows for found, rows in old if found == bucket]
    except FileNotFoundError:
        return None
    if not tables:
        return LakeFile("", "", 0, 0)
    rows = pa.concat_tables(tables, promote_options="permissive")
    by_time = bucket.topic in work.step.by_time
    return write_bucket(place, bucket, newest(rows, work.key, by_time=by_time))


def _packed(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    content: bytes = sink.getvalue().to_pybytes()
    return content
