"""A Spark session for a command: quiet, without a web page, with the Python that runs it."""

import os
import shutil
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from roquet.pipeline.errors import PipelineError


class NoSession(PipelineError):
    """Spark does not start."""


def start_session(name: str, master: str) -> SparkSession:
    """Takes some seconds. Raises NoSession, which says what is missing."""
    if _java() is None:
        raise NoSession("Spark needs Java 17 or newer: install it, or set JAVA_HOME to where it is")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        session = (
            SparkSession.builder.appName(name)
            .master(master)
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .getOrCreate()
        )
    except PySparkException as error:
        raise NoSession(f"Spark does not start: {str(error).splitlines()[0]}") from None
    session.sparkContext.setLogLevel("OFF")
    return session


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    return shutil.which("java")
