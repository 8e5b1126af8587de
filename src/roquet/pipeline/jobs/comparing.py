"""Two sides compared by their ids: how often each is there, and in which order.

Rows have the columns `id`, `key` and `order`. Nothing here knows where they come from.
"""

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame, Window, functions as sql

# Columns of `counted` that are worth an example.
NAMED: Final = ("missing", "twice", "unexpected", "quarantined")


def counted(sent: DataFrame, found: DataFrame, set_apart: DataFrame | None) -> DataFrame:
    """Each id with how often it was sent and found, and what is wrong with that."""
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
    """What came behind something of its key that was sent later. Of what came twice, the first."""
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
