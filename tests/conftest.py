"""Hypothesis profiles: `quick` tries the same examples in every run, so that a failure is that of
the change; `full` and `long` look for new ones. See `tests/support/gates.py` for who runs which.
"""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from roquet.net import listening
from tests.support.gates import IS_FULL, IS_LONG
from tests.support.ports import any_ports

pytest_plugins = ["tests.support.gate_plugin", "tests.support.second_try"]

# Shared machines are slow in bursts, so neither a slow example nor slow data generation is
# a finding. A failure prints the blob that replays it.
settings.register_profile(
    "quick",
    max_examples=50,
    deadline=None,
    print_blob=True,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
_QUICK = settings.get_profile("quick")
settings.register_profile("full", _QUICK, max_examples=200, derandomize=False)
settings.register_profile("long", _QUICK, max_examples=20_000, derandomize=False)
settings.load_profile("long" if IS_LONG else "full" if IS_FULL else "quick")


@pytest.fixture(autouse=True, scope="session")
def _ports_are_nobody_elses() -> Iterator[None]:
    """A server that a test stops and starts again finds its port free."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listening, "turns", listening.in_turn(any_ports()))
        yield


@pytest.fixture(autouse=True)
def _no_reader_is_left() -> Iterator[None]:
    """A reader whose cluster is gone complains, and that belongs to no later test."""
    yield
    if connections := sys.modules.get("roquet.pipeline.connections"):
        connections.close_readers()


_OWN_PROCESS = "ROQUET_OWN_PROCESS"


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Limits of a process cannot be tried where others have left hundreds of files open.

    Stores that tests kill are not closed, as those of a killed process are not.
    """
    if pyfuncitem.get_closest_marker("own_process") is None or _OWN_PROCESS in os.environ:
        return None
    words = ("-q", "-p", "no:cacheprovider", "-p", "no:xdist", pyfuncitem.nodeid)
    done = subprocess.run(
        (sys.executable, "-m", "pytest", *words),
        cwd=pyfuncitem.config.rootpath,
        env={name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
        | {_OWN_PROCESS: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    return True
