"""What is decided about a session before there is one."""

import subprocess
import sys
from pathlib import Path

import pytest

from roquet.pipeline.jobs.session import NoSession, _worker_python, spark_session


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_python_processes_of_this_machine_import_pyspark_from_where_it_is_installed(
    tmp_path: Path, master: str
) -> None:
    zipped = "/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10.9.9-src.zip"
    program = "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1:])"
    printed = subprocess.run(
        [_worker_python(tmp_path, master), "-c", program, "a b"],
        env={"PYTHONPATH": f"{zipped}:/jars/core.jar:/my code"},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert printed == "/jars/core.jar:/my code ['a b']\n"


def test_other_machines_are_told_the_plain_python(tmp_path: Path) -> None:
    assert _worker_python(tmp_path, "spark://host:7077") == Path(sys.executable)


def test_without_java_there_is_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoSession, match="Java 17"), spark_session("test", "local[1]"):
        pass
