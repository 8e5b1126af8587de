"""`audit`: compares the messages sent with those received, and with a lake.

Each side is a set of ids, with a key and a position in an order if it has them. Messages that are
missing, duplicate, unexpected or out of order are counted, with examples. Those in the quarantine
of a lake are not missing: they are counted as such, and are no error of the delivery.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window, functions as sql

from roquet.notebook_html import report_html
from roquet.pipeline.connections import topic_reader
from roquet.pipeline.errors import BadOption
from roquet.pipeline.lake.metadata import LakeSettings
from roquet.pipeline.lake.opening import existing_settings
from roquet.pipeline.lake.places import LakePlace
from roquet.pipeline.options.declaring import read_options
from roquet.pipeline.options.reading import ReadOptions
from roquet.pipeline.queries import run_query
from roquet.pipeline.selection import Selection, pinned, quarantined, selected
from roquet.pipeline.source.rows import pull_group

EXAMPLES: Final = 10
ID_DEFAULT: Final = "coalesce(msgId, offsetMsgId)"
KEY_DEFAULT: Final = "keys"
# The location of a message is more useful than its id, if both sides have the same one.
_PLACE: Final = "concat_ws('@', topic, brokerName, queueId, queueOffset)"
_STORED_ORDER: Final = "struct(storeTimestamp, queueOffset)"

_RECEIVED: Final = "received"
_LAKE: Final = "lake"

# Columns of `counted` that have examples.
NAMED: Final = ("missing", "twice", "unexpected", "quarantined")


@dataclass(frozen=True, kw_only=True)
class Side:
    """Messages of a selection, or rows of Parquet files. `id`, `key` and `order` are Spark SQL.

    Without `key` or `order` the order is not checked.
    """

    selection: Selection | None = None
    files: Path | None = None
    id: str = ID_DEFAULT
    key: str | None = None
    order: str | None = None

    def __post_init__(self) -> None:
        """Raises BadOption."""
        if (self.selection is None) == (self.files is None):
            raise BadOption("sent", "each side is a topic, a lake, or files: give exactly one")


@dataclass(frozen=True, kw_only=True)
class AuditPlan:
    """`group` stands for a side: the messages before the committed offsets of a group."""

    sent: Side
    received: Side | None = None
    group: str | None = None
    lake: LakePlace | None = None
    examples: int = EXAMPLES


class SideReport(NamedTuple):
    """`out_of_order` is None if a side has no order."""

    side: str
    sent: int
    found: int
    quarantined: int
    missing: int
    twice: int
    unexpected: int
    out_of_order: int | None

    @property
    def is_right(self) -> bool:
        return not (self.missing or self.twice or self.unexpected or self.out_of_order)


class Example(NamedTuple):
    side: str
    problem: str
    id: str
    key: str | None


class AuditReport(NamedTuple):
    sides: list[SideReport]
    examples: list[Example]

    def _repr_html_(self) -> str:
        return report_html(self)

    @property
    def is_right(self) -> bool:
        return all(each.is_right for each in self.sides)


class _Pair(NamedTuple):
    """Two sides that are compared."""

    name: str
    sent: Side
    found: Side


def topic_side(selection: Selection, id_sql: str = ID_DEFAULT) -> Side:
    return Side(selection=selection, id=id_sql, key=KEY_DEFAULT, order=_STORED_ORDER)


def check_audit(plan: AuditPlan) -> list[_Pair]:
    """The sides to compare, all pinned: sent messages first, so that later ones are not missing.

    Raises BadOption, BadLake, and what the client raises.
    """
    sent = _pinned(plan.sent)
    pairs = []
    if plan.received is not None:
        pairs.append(_Pair(_RECEIVED, sent, _pinned(plan.received)))
    if plan.group is not None:
        passed = _before_offsets(sent, plan.group)
        pairs.append(_Pair(f"group {plan.group}", replace(sent, id=_PLACE), passed))
    if plan.lake is not None:
        pairs.append(_lake_pair(sent, plan.lake))
    if not pairs:
        raise BadOption(
            "received", "nothing to compare with: give received messages, a group or a lake"
        )
    return pairs


def audit(spark: SparkSession, pairs: list[_Pair], examples: int = EXAMPLES) -> AuditReport:
    """Raises QueryFailed."""
    sides, found = [], list[Example]()
    for pair in pairs:
        side, its_examples = run_query(partial(_compared, spark, pair, examples))
        sides.append(side)
        found += its_examples
    return AuditReport(sides, found)


def _compared(spark: SparkSession, pair: _Pair, examples: int) -> tuple[SideReport, list[Example]]:
    with (
        _cached(_rows(spark, pair.sent)) as sent,
        _cached(_rows(spark, pair.found)) as found,
        _cached(counted(sent, found, _quarantined_rows(spark, pair))) as ids,
    ):
        (totals,) = ids.agg(
            *(
                sql.coalesce(sql.sum(each), sql.lit(0)).alias(each)
                for each in ("sent", "found", *NAMED)
            )
        ).collect()
        named = [
            Example(pair.name, problem, row.id, row.key)
            for problem in NAMED
            if totals[problem]
            for row in ids.where(sql.col(problem) > 0).orderBy("id").limit(examples).collect()
        ]
        wrong_order, misplaced = _order_problems(pair, sent, found, examples)
        side = SideReport(
            pair.name,
            totals.sent,
            totals.found,
            totals.quarantined,
            totals.missing,
            totals.twice,
            totals.unexpected,
            wrong_order,
        )
        return side, named + misplaced


def _order_problems(
    pair: _Pair, sent: DataFrame, found: DataFrame, examples: int
) -> tuple[int | None, list[Example]]:
    if not (_has_order(pair.sent) and _has_order(pair.found)):
        return None, []
    with _cached(out_of_order(sent, found)) as misplaced:
        return misplaced.count(), [
            Example(pair.name, "out of order", row.id, row.key)
            for row in misplaced.orderBy("id").limit(examples).collect()
        ]


@contextmanager
def _cached(frame: DataFrame) -> Iterator[DataFrame]:
    """Read once, however often it is used."""
    frame.cache()
    try:
        yield frame
    finally:
        frame.unpersist()


def _rows(spark: SparkSession, side: Side) -> DataFrame:
    if side.selection is not None:
        return _columns(selected(spark, side.selection), side)
    return _columns(spark.read.parquet(str(side.files)), side)


def _quarantined_rows(spark: SparkSession, pair: _Pair) -> DataFrame | None:
    """The quarantine of a lake; other sides have none."""
    selection = pair.found.selection
    if selection is None or selection.lake is None:
        return None
    return _columns(quarantined(spark, selection), pair.found)


def _columns(frame: DataFrame, side: Side) -> DataFrame:
    return frame.select(
        sql.expr(side.id).cast("string").alias("id"),
        sql.expr(side.key or "null").cast("string").alias("key"),
        sql.expr(side.order or "null").alias("order"),
    )


def _has_order(side: Side) -> bool:
    return side.key is not None and side.order is not None


def _pinned(side: Side) -> Side:
    if side.selection is not None:
        return replace(side, selection=pinned(side.selection))
    assert side.files is not None
    if not side.files.exists():
        raise BadOption("files", f"no files at {side.files}")
    return side


def _before_offsets(sent: Side, group: str) -> Side:
    """The messages before the committed offsets of a group."""
    selection = sent.selection
    if selection is None or selection.lake is not None:
        raise BadOption("group", "a group reads a topic, so the sent messages must be a topic")
    assert selection.ends is not None
    reading = read_options(ReadOptions, selection.source)
    reader = topic_reader(reading.cluster, pull_group(reading))
    committed = reader.committed(group, list(selection.ends))
    ends = {queue: min(end, committed[queue] or 0) for queue, end in selection.ends.items()}
    return replace(sent, id=_PLACE, selection=replace(selection, ends=ends))


def _lake_pair(sent: Side, lake: LakePlace) -> _Pair:
    source: Mapping[str, str] = {}
    if sent.selection is None:
        found = pinned(Selection(source=source, lake=lake))
        return _Pair(
            _LAKE, sent, Side(selection=found, key=sent.key and KEY_DEFAULT, order=_STORED_ORDER)
        )
    selection = _filtered_as_lake(sent.selection, existing_settings(lake))
    sent = replace(sent, id=_PLACE, selection=selection)
    # What the lake got since is ignored; what it lacks is missing.
    found = replace(selection, source=dict(_topic_names(selection)), lake=lake)
    return _Pair(_LAKE, sent, replace(sent, selection=found))


def _filtered_as_lake(selection: Selection, settings: LakeSettings) -> Selection:
    """Messages that the filter of the lake excludes are not missing there."""
    if settings.sql_expression is not None:
        source = {**selection.source, "sqlExpression": settings.sql_expression}
        return replace(selection, source=source)
    return replace(selection, tags=selection.tags or settings.tag_expression)


def _topic_names(selection: Selection) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in selection.source.items() if name.startswith("topic"))


def counted(sent: DataFrame, found: DataFrame, set_apart: DataFrame | None) -> DataFrame:
    """Each id with how often it was sent and found, and the difference."""
    sides = {"sent": sent, "found": found, "quarantined": set_apart}

    def marked(name: str, frame: DataFrame) -> DataFrame:
        return frame.select(
            "id", "key", *(sql.lit(int(each == name)).alias(each) for each in sides)
        )

    rows = [marked(name, frame) for name, frame in sides.items() if frame is not None]
    key_as_sent = sql.first(sql.when(sql.col("sent") > 0, sql.col("key")), ignorenulls=True)
    counts = (
        reduce(DataFrame.unionAll, rows)
        .groupBy("id")
        .agg(
            sql.coalesce(key_as_sent, sql.first("key", ignorenulls=True)).alias("key"),
            *(sql.sum(each).alias(each) for each in sides),
        )
    )
    was_sent, is_there = sql.col("sent"), sql.col("found") + sql.col("quarantined")
    none = sql.lit(0)
    return counts.select(
        "id",
        "key",
        *sides,
        sql.greatest(was_sent - is_there, none).alias("missing"),
        sql.when(was_sent > 0, sql.greatest(is_there - was_sent, none))
        .otherwise(none)
        .alias("twice"),
        sql.when(was_sent == 0, is_there).otherwise(none).alias("unexpected"),
    )


def out_of_order(sent: DataFrame, found: DataFrame) -> DataFrame:
    """Messages after one of their key that was sent later. Of duplicates, the first counts."""
    first_found = found.groupBy("id").agg(sql.min("order").alias("found_order"))
    first_sent = sent.groupBy("id").agg(
        sql.min("order").alias("sent_order"), sql.first("key").alias("key")
    )
    in_turn = Window.partitionBy("key").orderBy("found_order")
    before = in_turn.rowsBetween(Window.unboundedPreceding, -1)
    latest_before = sql.max("sent_order").over(before)
    return (
        first_sent.join(first_found, "id")
        .where("key is not null and key != ''")
        .withColumn("latest_before", latest_before)
        .where("latest_before > sent_order")
        .select("id", "key")
    )
