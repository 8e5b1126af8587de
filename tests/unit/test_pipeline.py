"""The formats are found, and looking for them costs little and breaks nothing."""

import subprocess
import sys

import pytest

# Spark starts a Python process for every question to a format, and gives it ten seconds. What
# only tasks need, or only other rooms, is not loaded to answer; pandas alone takes a second.
NOT_FOR_PLANNERS = {
    "backports",
    "lz4",
    "multiprocessing",
    "pandas",
    "rich",
    "roquet.broker",
    "roquet.cli",
    "roquet.namesrv",
    "roquet.protocol.catalog",
    "roquet.testing",
    "unittest",
}
PLANNING = """
import sys
from pyspark.sql.types import StringType, StructField, StructType
from roquet.pipeline.data_sources import RocketmqDataSource
from roquet.pipeline.data_sources import RocketmqStoreDataSource

body = StructType([StructField("body", StringType())])
topics = RocketmqDataSource({"nameServer": "localhost:9876", "topic": "orders"})
store = RocketmqStoreDataSource({"path": "store", "topic": "orders"})
"""
ASKED = {
    "schema": "topics.schema()",
    "batch": "topics.reader(topics.schema())",
    "stream": "topics.streamReader(topics.schema())",
    "batch sink": "topics.writer(body, False)",
    "stream sink": "topics.streamWriter(body, False)",
    "store": "store.reader(store.schema())",
    "lake": "import roquet.pipeline.source.lake_staging",
}


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_importing_the_pipeline_loads_neither_spark_nor_arrow() -> None:
    program = "import sys, roquet.pipeline as p; p.register; print(*sys.modules)"
    loaded = run(program).stdout.split()
    assert "roquet.pipeline" in loaded
    assert not {"pyspark", "pyarrow", "numpy"} & set(loaded)


@pytest.mark.slow
def test_spark_finds_both_formats_by_their_modules() -> None:
    program = (
        "import pkgutil, importlib\n"
        "for each in pkgutil.iter_modules():\n"
        "    if each.name.startswith('pyspark_rocketmq'):\n"
        "        print(importlib.import_module(each.name).DefaultSource.name())"
    )
    assert run(program).stdout.split() == ["rocketmq", "rocketmq-store"]


@pytest.mark.slow
def test_without_arrow_the_modules_offer_nothing_and_do_not_fail() -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import pyspark_rocketmq, pyspark_rocketmq_store\n"
        "print(hasattr(pyspark_rocketmq, 'DefaultSource'))\n"
        "print(hasattr(pyspark_rocketmq_store, 'DefaultSource'))"
    )
    done = run(program)
    assert done.stdout.split() == ["False", "False"]
    assert done.stderr.count("is not available: import of pyarrow") == 2
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("asked", ASKED.values(), ids=ASKED)
@pytest.mark.slow
def test_planners_load_nothing_that_only_others_need(asked: str) -> None:
    done = run(f"{PLANNING}\n{asked}\nprint(*sys.modules)")
    loaded = set(done.stdout.split())
    assert "roquet.pipeline.data_sources" in loaded, done.stderr
    assert loaded.isdisjoint(NOT_FOR_PLANNERS), loaded & NOT_FOR_PLANNERS


@pytest.mark.slow
def test_a_planner_of_topics_does_not_load_the_store() -> None:
    program = "import sys, roquet.pipeline.source.stream; print(*sys.modules)"
    assert "roquet.store" not in run(program).stdout.split()


@pytest.mark.slow
def test_pandas_is_not_needed() -> None:
    program = (
        "import importlib, pkgutil, sys\n"
        "class Missing:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name == 'pandas': raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Missing)\n"
        "import roquet.pipeline\n"
        "for each in pkgutil.walk_packages(roquet.pipeline.__path__, 'roquet.pipeline.'):\n"
        "    importlib.import_module(each.name)\n"
        "print('roquet.pipeline.sink.writers' in sys.modules)"
    )
    done = run(program)
    assert done.stdout.split() == ["True"], done.stderr
