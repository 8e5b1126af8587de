"""A test whose JVM did not start gets a second try; whatever else fails has failed.

A pytest plugin. What needed its second try is listed at the end of a run, because it is worth a
look even if it passed.
"""

from collections.abc import Generator
from typing import Final

import pytest
from _pytest.runner import runtestprotocol

from tests.support.jars import JvmNotStarted

_PROPERTY: Final = "passed at its second try"
_HAS_NO_JVM = pytest.StashKey[bool]()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if item.get_closest_marker("java") is None or not isinstance(item, pytest.Function):
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    if item.stash.get(_HAS_NO_JVM, False):
        item._initrequest()
        reports = runtestprotocol(item, log=False, nextitem=nextitem)
        for report in reports:
            report.user_properties.append((_PROPERTY, item.nodeid))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    if call.excinfo is not None and call.excinfo.errisinstance(JvmNotStarted):
        item.stash[_HAS_NO_JVM] = True
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    names = {
        str(name)
        for report in terminalreporter.stats.get("passed", [])
        for key, name in report.user_properties
        if key == _PROPERTY
    }
    for name in sorted(names):
        terminalreporter.write_line(f"{name} {_PROPERTY}", yellow=True)
