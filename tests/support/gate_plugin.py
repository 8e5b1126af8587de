"""Leaves out what a gate does not run, and says so; see `gates.py`.

A pytest plugin. A run ends with the minutes of each folder and with what the other gate would add.
Runs that belong together pass these on to each other in the file that ROQUET_GATE_REPORT names.
"""

import os
import time
from collections.abc import Generator
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from tests.support.gates import (
    IS_FULL,
    IS_QUICK,
    JUDGED,
    OTHER_VERSION,
    folder_of,
    left_out_table,
    minutes_table,
    other_versions,
    version_of,
)

# Taken away: tests that start pytest have nothing to report.
_REPORT: Final = os.environ.pop("ROQUET_GATE_REPORT", "")
_STARTED_S: Final = time.time()
_LEFT_OUT = pytest.StashKey[list[list[str]]]()


class Report(msgspec.Struct):
    """What the runs of one gate have in common; seconds are those of all workers together."""

    started_s: float
    seconds: dict[str, float] = {}
    # Folder and reason of each test that was left out.
    left_out: list[list[str]] = []


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        version = version_of(item.nodeid)
        if version is not None and item.nodeid.startswith(JUDGED[0]):
            # Each worker has the servers of one version: as many as one worker would have.
            item.add_marker(pytest.mark.xdist_group(version))
    if IS_QUICK:
        _leave_out(config, items)


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    others = other_versions(
        item.nodeid for item in items if item.get_closest_marker("full") is None
    )
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    reports: list[list[str]] = []
    for item in items:
        mark = item.get_closest_marker("full")
        reason = mark.args[0] if mark else OTHER_VERSION if item.nodeid in others else None
        (kept if reason is None else left).append(item)
        if reason is not None:
            reports.append([folder_of(item.nodeid), reason])
    items[:] = kept
    config.stash[_LEFT_OUT] = reports
    config.hook.pytest_deselected(items=left)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of xdist hands over what it left out; all of them left out the same."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = session.config.stash.get(_LEFT_OUT, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[_LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", [])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None, None, None]:
    """After the list of what failed or was skipped: the closing line follows at once."""
    yield
    report = _earlier_report() or Report(_STARTED_S)
    for each in chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(each, pytest.TestReport):
            folder = folder_of(each.nodeid)
            report.seconds[folder] = report.seconds.get(folder, 0.0) + each.duration
    report.left_out += _left_out(config)
    if _REPORT:
        Path(_REPORT).write_bytes(msgspec.json.encode(report))
    if not (IS_QUICK or IS_FULL):
        return
    lines = minutes_table(report.seconds, time.time() - report.started_s)
    if IS_QUICK:
        lines += left_out_table(report.left_out, report.seconds)
    for line in lines:
        terminalreporter.write_line(line)


def _left_out(config: pytest.Config) -> list[list[str]]:
    return config.stash.get(_LEFT_OUT, [])


def _earlier_report() -> Report | None:
    path = Path(_REPORT)
    return msgspec.json.decode(path.read_bytes(), type=Report) if path.is_file() else None
