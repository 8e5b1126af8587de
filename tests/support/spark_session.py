"""A Spark session for tests: small, quiet, with the Python that runs the tests."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from roquet.pipeline import register
from roquet.pipeline.session import (
    QUICK_CHECKPOINTS,
    quick_python,
    unix_sockets,
)
from tests.support.class_archive import JVM_VARIABLE, quick_jvm
from tests.support.jars import JvmNotStarted


@contextmanager
def spark_session(directory: Path) -> Iterator[SparkSession]:
    """Two cores, and a task is tried three times. Both formats are registered.

    Raises JvmNotStarted.
    """
    # Workers would take the first Python of the path, and be slow to start.
    os.environ["PYSPARK_PYTHON"] = str(quick_python(directory))
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    # Also for the commands that tests start.
    os.environ[JVM_VARIABLE] = quick_jvm()
    builder = SparkSession.Builder().master("local[2,3]").appName("roquet-tests")
    for name, value in {
        **QUICK_CHECKPOINTS,
        **unix_sockets(directory),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "local"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={directory}",
    }.items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise JvmNotStarted(f"Spark did not start: {error}") from error
    session.sparkContext.setLogLevel("ERROR")
    register(session)
    try:
        yield session
    finally:
        session.stop()
