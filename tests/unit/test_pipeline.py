"""The formats are found, and looking for them costs little and breaks nothing."""

import subprocess
import sys


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, check=False, capture_output=True, text=True)


def test_importing_the_pipeline_loads_neither_spark_nor_arrow() -> None:
    program = "import sys, roquet.pipeline as p; p.register; print(*sys.modules)"
    loaded = run(program).stdout.split()
    assert "roquet.pipeline" in loaded
    assert not {"pyspark", "pyarrow", "numpy"} & set(loaded)


def test_spark_finds_both_formats_by_their_modules() -> None:
    program = (
        "import pkgutil, importlib\n"
        "for each in pkgutil.iter_modules():\n"
        "    if each.name.startswith('pyspark_rocketmq'):\n"
        "        print(importlib.import_module(each.name).DefaultSource.name())"
    )
    assert run(program).stdout.split() == ["rocketmq", "rocketmq-store"]


def test_without_arrow_the_modules_offer_nothing_and_do_not_fail() -> None:
    program = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import pyspark_rocketmq, pyspark_rocketmq_store\n"
        "print(hasattr(pyspark_rocketmq, 'DefaultSource'))\n"
        "print(hasattr(pyspark_rocketmq_store, 'DefaultSource'))"
    )
    done = run(program)
    assert done.stdout.split() == ["False", "False"]
    assert done.stderr.count("there is no format rocketmq") == 2
    assert "Traceback" not in done.stderr
