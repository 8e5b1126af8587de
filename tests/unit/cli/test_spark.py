"""`roquet spark` as a person sees it, as far as it comes without Spark."""

from pathlib import Path

import pytest

from tests.support.command_line import Finished, roquet


def ingest(directory: Path, *more: str) -> Finished:
    needed = ("-n", "localhost:9876", "--topic", "orders")
    places = ("--lake", directory / "lake", "--checkpoint", directory / "checkpoint")
    return roquet("spark", "ingest", *needed, *places, *more)


def test_what_is_needed_is_said(tmp_path: Path) -> None:
    finished = roquet("spark", "ingest", "--lake", tmp_path)
    assert finished.exit_code == 2
    assert "--name-server" in finished.stderr


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


def test_a_machine_without_java_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    finished = ingest(tmp_path)
    assert finished.exit_code == 1
    assert finished.stderr.splitlines()[-1].endswith(
        "Spark needs Java 17 or newer: install it, or set JAVA_HOME to where it is"
    )


def test_a_python_without_spark_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("roquet.cli.spark.find_spec", lambda _: None)
    finished = ingest(tmp_path)
    assert finished.exit_code == 1
    assert "pip install roquet[spark]" in finished.stderr
