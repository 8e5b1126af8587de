"""The outbox as an app of a Django project, in processes of its own."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from roquet.testing import BlockingCluster
from tests.support.databases import postgres
from tests.support.eventually import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("outbox")]

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "shop.db")
        return
    with postgres() as url:
        yield parse_qs(urlsplit(url).query)["host"][0]


def command(database: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "tests.support.django_shop", database, *arguments]


def run(database: str, *arguments: str) -> str:
    finished = subprocess.run(
        command(database, *arguments), cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_what_is_committed_is_sent_in_order_and_what_is_rolled_back_is_not(database: str) -> None:
    run(database, "migrate")
    run(database, "place", "9")
    with BlockingCluster() as cluster:
        relay = command(database, "relay_outbox", "--name-server", cluster.name_server)
        running = subprocess.Popen(relay, cwd=ROOT)
        try:
            wait_until(lambda: len(cluster.received("orders")) >= 5)
        finally:
            running.send_signal(signal.SIGTERM)
            assert running.wait(60) == 0
        found = sorted(cluster.received("orders"), key=lambda each: each.queue_offset)
    assert [message.body for message in found] == [b"0", b"2", b"4", b"6", b"8"]
    assert {message.queue for message in found} == {found[0].queue}


def test_the_migrations_fit_the_models(tmp_path: Path) -> None:
    run(str(tmp_path / "shop.db"), "makemigrations", "--check", "--dry-run")


def test_a_bad_address_is_one_line(tmp_path: Path) -> None:
    database = str(tmp_path / "shop.db")
    run(database, "migrate")
    finished = subprocess.run(
        command(database, "relay_outbox", "--name-server", "nonsense"),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 1
    assert "Traceback" not in finished.stderr
    assert finished.stderr.startswith("CommandError: ")
