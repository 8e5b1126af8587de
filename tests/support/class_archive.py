"""Classes of Spark as a JVM has them after loading: one that starts with them takes half the time.

Tests start Spark more than a dozen times, and each of them would load, check and link ten thousand
classes again. The archive lies in the environment whose jars it was made of, and goes with it; a
JVM for which it does not fit leaves it alone.
"""

import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Final

import pyspark

from tests.support.jars import JvmNotStarted, made_once

# No second compiler: it takes as much of two cores as all the rest, and its code comes too late.
_QUICK: Final = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
# What Spark reads it from, for the JVM of a driver.
JVM_VARIABLE: Final = "SPARK_SUBMIT_OPTS"
_TIMEOUT_S: Final = 300.0
# What a JVM says of archives goes to its output, where commands write their results.
_SILENCE: Final = "-Xlog:disable"
_FILE: Final = "classes.jsa"
# Rows through Python, files, and a stream: what is used here is in the archive.
_PROGRAM: Final = """
import sys
from pathlib import Path
from roquet.pipeline.session import spark_session
place = str(Path(sys.argv[1]) / "rows")
with spark_session("classes", "local[2]") as spark:
    spark.range(10).mapInArrow(lambda rows: rows, "id long").write.parquet(place)
    stream = spark.readStream.schema("id long").parquet(place)
    writer = stream.writeStream.option("checkpointLocation", place + "-checkpoint")
    query = writer.foreachBatch(lambda rows, _: rows.collect()).trigger(availableNow=True).start()
    query.awaitTermination()
"""


@cache
def quick_jvm() -> str:
    """Options for every JVM that runs Spark in tests. Raises JvmNotStarted."""
    name = f"spark-classes-{pyspark.__version__}"
    archive = made_once(Path(sys.prefix) / name, _make_archive) / _FILE
    return f"{_QUICK} {_SILENCE} -XX:SharedArchiveFile={archive}"


def _make_archive(directory: Path) -> None:
    """The JVM writes it when it ends, and that is when its output does."""
    options = f"{_QUICK} {_SILENCE} -XX:ArchiveClassesAtExit={directory / _FILE}"
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, scratch],
            env=os.environ | {JVM_VARIABLE: options, "SPARK_LOCAL_IP": "127.0.0.1"},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    if done.returncode or not (directory / _FILE).exists():
        raise JvmNotStarted(f"no archive of classes was made: {done.stderr}")
