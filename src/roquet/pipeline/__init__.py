"""The data pipeline on Spark: topics and store directories as DataFrames, and DataFrames as topics.

Duty: the formats `rocketmq` (batch and stream, read and write) and `rocketmq-store`, the lake,
and the jobs of `roquet spark`. Everything Spark-specific is here; what reads and writes messages
is the client, the offline store and the record columns.
Doors: imports `client`, `store.offline` and `protocol`; this room alone imports pyspark. Only the
command line imports this room. Programs need `register`, and not even that where Spark looks for
formats by itself: the packages `pyspark_rocketmq` and `pyspark_rocketmq_store` are found by it.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]


def register(spark: "SparkSession") -> None:
    """Makes the formats `rocketmq` and `rocketmq-store` known to a session."""
    # Spark is loaded by those who have a session; importing this package loads nothing.
    from roquet.pipeline.data_sources import (  # noqa: PLC0415
        RocketmqDataSource,
        RocketmqStoreDataSource,
    )

    spark.dataSource.register(RocketmqDataSource)
    spark.dataSource.register(RocketmqStoreDataSource)
