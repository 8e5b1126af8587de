"""What `make test` leaves to `make test-full`, and that it says so."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.gates import (
    OTHER_VERSION,
    few,
    folder_of,
    left_out_table,
    minutes_table,
    other_versions,
)

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("node_id", "folder"),
    [
        ("tests/unit/net/test_limits.py::test_a", "tests/unit"),
        ("tests/crash/test_kill.py::test_a[a/b]", "tests/crash"),
        ("tests/test_tidy.py::test_a", "tests"),
        ("tests/test_tidy.py::test_a[docs/a.md]", "tests"),
    ],
)
def test_a_test_belongs_to_the_folder_below_tests(node_id: str, folder: str) -> None:
    assert folder_of(node_id) == folder


def test_one_apache_version_of_each_test_stays_and_both_are_used() -> None:
    names = [f"tests/interop/test_a.py::test_{number}" for number in range(40)]
    versions = ("4.9.7", "5.5.0")
    ids = [f"{name}[server-{version}-x]" for name in names for version in versions]
    kept = set(ids) - other_versions(ids)
    assert {each.partition("[")[0] for each in kept} == set(names)
    assert len(kept) == len(names)
    assert all(10 < sum(version in each for each in kept) < 30 for version in versions)


def test_of_clients_and_servers_one_pair_of_versions_stays() -> None:
    name = "tests/interop/test_a.py::test_a"
    versions = ("4.9.7", "5.5.0")
    ids = [f"{name}[client-{first}-server-{second}]" for first in versions for second in versions]
    assert len(set(ids) - other_versions(ids)) == 1


@pytest.mark.parametrize(
    "ids",
    [
        ["tests/interop/test_a.py::test_a[server-4.9.7]", "tests/interop/test_a.py::test_a[ours]"],
        ["tests/interop/test_a.py::test_a[4.9.7-a]", "tests/interop/test_a.py::test_a[5.5.0-b]"],
        ["tests/interop/test_a.py::test_a", "tests/interop/test_a.py::test_b[4.9.7]"],
        ["tests/unit/test_a.py::test_a[4.9.7]", "tests/unit/test_a.py::test_a[5.5.0]"],
    ],
)
def test_what_no_other_test_does_stays(ids: list[str]) -> None:
    assert other_versions(ids) == set()


def test_what_is_left_out_is_counted_by_folder_and_reason() -> None:
    left_out = [["tests/interop", OTHER_VERSION]] * 3 + [["tests/pipeline", "minutes of Spark"]]
    assert left_out_table(left_out, ["tests/interop", "tests/pipeline"]) == [
        "make test-full would add",
        f"  tests/interop        3 tests: {OTHER_VERSION}",
        "  tests/pipeline       1 tests: minutes of Spark",
    ]
    assert left_out_table([], ["tests/unit"]) == []
    assert len(left_out_table([], ["tests/property"])) == 2


def test_minutes_are_those_of_all_workers() -> None:
    assert minutes_table({"tests/unit": 90.0, "tests/crash": 30.0}, 61.0) == [
        "minutes by folder, of all workers together; 1.0 since the start",
        "  tests/crash         0.5",
        "  tests/unit          1.5",
    ]


SUITE = """
import pytest

def test_short(): pass

@pytest.mark.full("takes its time")
def test_long(): assert {is_right}

@pytest.mark.parametrize("version", ["4.9.7", "5.5.0"])
def test_of_both(version): pass

LONG = pytest.mark.full("takes its time")

@pytest.mark.parametrize("version", [pytest.param("4.9.7", marks=LONG), "5.5.0"])
def test_of_one(version): pass

@pytest.mark.parametrize("version", ["4.9.7", pytest.param("5.5.0", marks=LONG)])
def test_of_the_other(version): pass
"""


class Run(NamedTuple):
    gate: str
    worker_count: int
    is_right: bool
    exit_code: int
    closing: str


RUNS = (
    Run("quick", 0, is_right=False, exit_code=0, closing="4 passed"),
    Run("full", 0, is_right=False, exit_code=1, closing="1 failed, 7 passed"),
    # Each worker reports what it leaves out, and that is counted once.
    Run("quick", 2, is_right=False, exit_code=0, closing="4 passed"),
    Run("full", 0, is_right=True, exit_code=0, closing="8 passed"),
    Run("full", 2, is_right=False, exit_code=1, closing="1 failed, 7 passed"),
    Run("full", 2, is_right=True, exit_code=0, closing="8 passed"),
)


@pytest.mark.parametrize(
    "run",
    few(RUNS, 3, "the full gate with workers, which start slowly"),
    ids=lambda run: f"{run.gate}-{run.worker_count}-{run.closing}",
)
def test_a_gate_runs_its_tests_and_ends_with_what_it_left_out(tmp_path: Path, run: Run) -> None:
    suite = tmp_path / "tests" / "interop"
    suite.mkdir(parents=True)
    (suite / "test_suite.py").write_text(SUITE.format(is_right=run.is_right))
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["tests.support.gate_plugin"]')
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = full")
    report = tmp_path / "report.json"
    report.write_text('{"started_s": 0, "seconds": {"tests/unit": 60}}')
    environment = {key: text for key, text in os.environ.items() if "PYTEST" not in key}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "xdist", "-n", str(run.worker_count), "tests"],
        cwd=tmp_path,
        env=environment
        | {
            # Most of the time would go into loading what it does not need.
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}",
            "ROQUET_GATE": run.gate,
            "ROQUET_GATE_REPORT": str(report),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == run.exit_code, done.stdout + done.stderr
    *_, before, last = done.stdout.splitlines()
    assert before.startswith("  tests/")
    assert last.removeprefix("=").strip().startswith(run.closing), last
    assert "tests/unit          1.0" in done.stdout
    is_told = "tests/interop        3 tests: takes its time" in done.stdout
    assert is_told == (run.gate == "quick")
    assert (f"1 tests: {OTHER_VERSION}" in done.stdout) == is_told
