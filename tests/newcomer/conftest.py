"""One home and one cluster for all tests: making them takes longer than most of these."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.newcomer_home import Home, prepared_home
from tests.support.readme_blocks import block_with


class Cluster(NamedTuple):
    """What `roquet up` says it is; its ports are any, because others may use the usual ones."""

    name_server: str
    ready_line: str


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    """Installed as README says, but from the wheel and with the versions that are tested."""
    home = prepared_home(tmp_path_factory.mktemp("newcomer"))
    install = block_with("pip install .\n").commands[0]
    install = install.replace("pip install .", f"pip install {home.wheel}")
    # The Python of these tests, for which the wheel is, may not be the first of the PATH.
    finished = home.run(install.replace("python3 ", f"{_base_python()} "))
    assert finished.exit_code == 0, finished.stderr
    return home


def _base_python() -> str:
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


@pytest.fixture(scope="session")
def cluster(home: Home) -> Iterator[Cluster]:
    with running_cluster(home, "roquet up") as cluster:
        yield cluster


@contextmanager
def running_cluster(home: Home, command: str) -> Iterator[Cluster]:
    with home.running(f"{command} --name-server-port 0 --broker-port 0") as running:
        printed = running.wait_for(r"(ready name-server=(\S+:\d+) .*)\n")
        yield Cluster(printed[2], printed[1])
        assert running.stop() == 0


@pytest.fixture(scope="session")
def examples() -> Path:
    return Path(__file__).parents[2] / "examples"
