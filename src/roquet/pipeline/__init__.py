"""The data pipeline on Spark: topics and store directories as DataFrames, and DataFrames as topics.

Duty: the formats `rocketmq` (batch and stream, read and write) and `rocketmq-store`, the lake,
and the jobs of `roquet spark`. Everything Spark-specific is here; messages are read and written by
the client, the offline store and the record columns.
Dependencies: imports `client`, `store.offline` and `protocol`; only this package imports pyspark.
Only the command line imports this package. Programs need `register`, and not even that where Spark
discovers formats by itself: it finds the packages `pyspark_rocketmq` and `pyspark_rocketmq_store`.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from roquet.pipeline.watching.positions import QueryLag

__all__ = ["query_lag", "register", "serve_metrics"]


def register(spark: "SparkSession") -> None:
    """Registers the formats `rocketmq` and `rocketmq-store` with a session.

    With a local master, Spark's workers use the Python of this program from now on, unless
    PYSPARK_PYTHON or `spark.pyspark.python` names another one: the first `python3` of the PATH,
    which they would use, need not have roquet. Raises ImportError without the extra `spark`.
    """
    if not all(map(find_spec, ("numpy", "pyarrow"))):
        raise ImportError("the formats of Roquet need numpy and pyarrow: pip install roquet[spark]")
    _use_this_python(spark)
    # A caller with a session has loaded Spark; importing this package loads nothing.
    from roquet.pipeline.data_sources import (  # noqa: PLC0415
        RocketmqDataSource,
        RocketmqStoreDataSource,
    )

    spark.dataSource.register(RocketmqDataSource)
    spark.dataSource.register(RocketmqStoreDataSource)


@contextmanager
def serve_metrics(spark: "SparkSession", listen: str = "9878") -> Iterator[str]:
    """Serves the progress of all streaming queries of a session for Prometheus, while it is open.

    `listen` is `host:port`, or a port of this machine alone; 0 takes a free one. The value is the
    address with the port it got. Raises BadOption and OSError, such as AddressTaken.
    """
    from roquet.pipeline.watching.serving import query_metrics, read_listen  # noqa: PLC0415

    with query_metrics(spark, read_listen(listen)) as served:
        yield str(served.place)


def query_lag(query: "StreamingQuery") -> "QueryLag":
    """The lag of a streaming query after each of its last micro-batches; a notebook plots it."""
    from roquet.pipeline.watching.positions import lag_of  # noqa: PLC0415

    return lag_of(query.name or str(query.id), query.recentProgress)


def _use_this_python(spark: "SparkSession") -> None:
    if spark.conf.get("spark.pyspark.python", None) or "PYSPARK_PYTHON" in os.environ:
        return
    if (spark.conf.get("spark.master", None) or "").startswith("local"):
        spark.sparkContext.pythonExec = sys.executable
