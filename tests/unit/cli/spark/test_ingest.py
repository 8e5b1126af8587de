"""`roquet spark ingest` as a person sees it, as far as it comes without Spark."""

from pathlib import Path

import pytest

from roquet.testing.blocking import BlockingCluster
from tests.support.command_line import Finished, roquet
from tests.support.ports import free_port


def ingest(directory: Path, *more: str, name_server: str = "localhost:9876") -> Finished:
    needed = ("-n", name_server, "--topic", "orders")
    places = ("--lake", directory / "lake", "--checkpoint", directory / "checkpoint")
    return roquet("spark", "ingest", *needed, *places, *more)


def test_what_is_needed_is_said(tmp_path: Path) -> None:
    finished = roquet("spark", "ingest", "--lake", tmp_path)
    assert finished.exit_code == 2
    assert "--checkpoint" in finished.stderr


def test_an_interval_and_an_end_contradict_each_other(tmp_path: Path) -> None:
    finished = ingest(tmp_path, "--available-now", "--interval", "10 seconds")
    assert finished.exit_code == 2
    assert "contradicts" in finished.stderr


def test_a_bad_option_is_told_in_one_line_before_spark_starts(tmp_path: Path) -> None:
    finished = ingest(tmp_path, "--starting-offsets", "soon")
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
    assert "earliest, latest, group" in finished.stderr
    assert not (tmp_path / "lake").exists()


def test_a_name_server_that_is_not_there_is_told_before_spark_starts(tmp_path: Path) -> None:
    finished = ingest(tmp_path, name_server=f"127.0.0.1:{free_port()}")
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
    assert not (tmp_path / "lake").exists()


def test_a_topic_that_is_not_there_is_told_before_spark_starts(tmp_path: Path) -> None:
    with BlockingCluster() as cluster:
        finished = ingest(tmp_path, name_server=cluster.name_server)
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
    assert "orders" in finished.stderr


def test_a_machine_without_java_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with BlockingCluster() as cluster:
        cluster.new_topic("orders")
        finished = ingest(tmp_path, name_server=cluster.name_server)
    assert finished.exit_code == 1
    assert finished.stderr.splitlines()[-1].endswith(
        "Spark needs Java 17 or newer: install it, or set JAVA_HOME to where it is"
    )


def test_a_python_without_spark_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.cli.spark.running.find_spec", lambda _: None)
    finished = ingest(tmp_path)
    assert finished.exit_code == 1
    assert "pip install roquet[spark]" in finished.stderr


def test_a_setting_of_spark_has_a_name_and_a_value(tmp_path: Path) -> None:
    finished = ingest(tmp_path, "--conf", "spark.executor.cores")
    assert finished.exit_code == 2
    assert "is not NAME=VALUE" in finished.stderr


def test_an_interval_is_a_time_span(tmp_path: Path) -> None:
    finished = ingest(tmp_path, "--interval", "soon")
    assert finished.exit_code == 2
    assert "'soon' is not a time span" in finished.stderr
