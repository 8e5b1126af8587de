"""What is decided about a session before there is one."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from roquet.pipeline import session
from roquet.pipeline.errors import BadLake, PipelineError
from roquet.pipeline.queries import QueryFailed
from roquet.pipeline.session import (
    QUICK_CHECKPOINTS,
    NoSession,
    _archive_conf,
    _choose_python,
    settings_of,
    spark_session,
)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """That of this process, as it is for one test."""
    changed = dict(os.environ)
    monkeypatch.setattr(os, "environ", changed)
    return changed


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]"])
def test_python_processes_of_this_machine_import_pyspark_from_where_it_is_installed(
    tmp_path: Path, environment: dict[str, str], master: str
) -> None:
    _choose_python(tmp_path, master, None)
    zipped = "/spark/python/lib/pyspark.zip:/spark/python/lib/py4j-0.10.9.9-src.zip"
    program = "import os, sys; print(os.environ['PYTHONPATH'], sys.argv[1:])"
    printed = subprocess.run(
        [environment["PYSPARK_PYTHON"], "-c", program, "a b"],
        env={"PYTHONPATH": f"{zipped}:/jars/core.jar:/my code"},
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert printed == "/jars/core.jar:/my code ['a b']\n"


def test_other_machines_get_the_python_itself(tmp_path: Path, environment: dict[str, str]) -> None:
    _choose_python(tmp_path, "spark://host:7077", None)
    assert environment["PYSPARK_PYTHON"] == sys.executable


def test_with_an_archive_machines_take_their_own_python_and_this_one_takes_ours(
    tmp_path: Path, environment: dict[str, str]
) -> None:
    _choose_python(tmp_path, "spark://host:7077", tmp_path / "site.zip")
    assert environment["PYSPARK_PYTHON"] == "python3"
    found = shutil.which("python3", path=environment["PATH"])
    assert found == str(tmp_path / "python3")


def test_executors_unpack_an_archive_and_import_from_it(tmp_path: Path) -> None:
    archive = tmp_path / "roquet-site.zip"
    assert _archive_conf(archive) == {
        "spark.archives": f"{archive}#site",
        "spark.executorEnv.PYTHONPATH": "site",
    }
    assert _archive_conf(None) == {}


def test_an_archive_that_is_not_there_is_reported_before_spark_starts(tmp_path: Path) -> None:
    archive = tmp_path / "site.zip"
    with (
        pytest.raises(NoSession, match="roquet spark package"),
        spark_session("test", "local[1]", archive),
    ):
        pass


def test_without_java_there_is_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(NoSession, match="Java 17"), spark_session("test", "local[1]"):
        pass


class Stopping:
    """What is left of a session when Spark does not run."""

    def __init__(self, output: Path, failure: Exception | None = None) -> None:
        output.touch()
        self._failure = failure

    def stop(self) -> None:
        if self._failure is not None:
            raise self._failure


def started(name: str, master: str, output: Path, conf: Mapping[str, str]) -> Stopping:
    return Stopping(output)


@pytest.mark.parametrize(
    ("error", "is_kept"), [(QueryFailed("it ended"), True), (BadLake("there is none"), False)]
)
def test_what_spark_printed_is_kept_if_spark_failed(
    tmp_path: Path,
    environment: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
    error: PipelineError,
    is_kept: bool,
) -> None:
    """Who asked for something that is not there has nothing to look up in Java's words."""
    environment |= {"PYSPARK_PYTHON": sys.executable, "TMPDIR": str(tmp_path)}
    monkeypatch.setattr(session, "_started", started)
    with pytest.raises(type(error)) as raised, spark_session("test", "local[1]"):
        raise error
    kept = [f"the output of Spark is in {each}" for each in tmp_path.iterdir()]
    assert getattr(raised.value, "__notes__", []) == kept
    assert len(kept) == is_kept


def test_what_a_killed_job_left_is_removed_and_what_is_kept_for_a_person_is_not(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    environment |= {"PYSPARK_PYTHON": sys.executable, "TMPDIR": str(tmp_path)}
    monkeypatch.setattr(session, "_started", started)
    left = tmp_path / "roquet-of-a-killed-job"
    left.mkdir()
    (left / ".owner").touch()
    with pytest.raises(QueryFailed), spark_session("test", "local[1]"):
        raise QueryFailed("it ended")
    (kept,) = tmp_path.iterdir()
    with spark_session("test", "local[1]"):
        pass
    assert list(tmp_path.iterdir()) == [kept]


def test_a_session_that_java_has_ended_with_is_stopped(
    tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It used to be a traceback, instead of what had failed."""
    environment |= {"PYSPARK_PYTHON": sys.executable, "TMPDIR": str(tmp_path)}
    monkeypatch.setattr(session, "_started", lambda *given: Stopping(given[2], Py4JNetworkError()))
    with pytest.raises(QueryFailed, match="it ended"), spark_session("test", "local[1]"):
        raise QueryFailed("it ended")


def test_what_is_given_counts_for_more_than_what_is_usual(tmp_path: Path) -> None:
    ((key, usual),) = QUICK_CHECKPOINTS.items()
    assert settings_of("local[1]", tmp_path, {})[key] == usual
    assert settings_of("local[1]", tmp_path, {key: "another"})[key] == "another"


def test_only_a_session_on_this_machine_talks_to_no_other_machine(tmp_path: Path) -> None:
    assert settings_of("local[1]", tmp_path, {})["spark.driver.host"] == "127.0.0.1"
    assert "spark.driver.host" not in settings_of("spark://elsewhere:7077", tmp_path, {})


def test_pythons_talk_to_spark_where_only_this_user_looks() -> None:
    key = "spark.python.unix.domain.socket.dir"
    # Directories of tests may be too deep for sockets.
    own = Path("/own")
    assert settings_of("local[1]", own, {})[key] == "/own"
    # Elsewhere there is no such directory.
    assert key not in settings_of("spark://elsewhere:7077", own, {})


def test_pythons_talk_over_tcp_where_a_path_is_too_long_for_a_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100)
    assert not [key for key in settings_of("local[1]", deep, {}) if "socket" in key]


@pytest.mark.parametrize(("given", "threads"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_the_python_of_spark_has_one_thread_for_algebra_unless_configured(
    tmp_path: Path, given: dict[str, str], threads: str
) -> None:
    program = "import os; print(os.environ['OPENBLAS_NUM_THREADS'])"
    environment = {key: value for key, value in os.environ.items() if "OPENBLAS" not in key}
    script = session.quick_python(tmp_path)
    done = subprocess.run(
        [script, "-c", program], env=environment | given, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == threads
