"""FastAPI under uvicorn and gunicorn: real processes, which send and consume."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from roquet.testing import BlockingCluster
from tests.support.eventually import wait_until
from tests.support.ports import free_port

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("fastapi")]

APPLICATION = "tests.support.fastapi_shop:app"


@pytest.fixture
def cluster() -> Iterator[BlockingCluster]:
    with BlockingCluster() as cluster:
        cluster.new_topic("orders")
        yield cluster


@contextmanager
def served(cluster: BlockingCluster, directory: Path, port: int, *words: str) -> Iterator[str]:
    """The URL of a server that has to end well."""
    log = directory / "server.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            env=os.environ | {"NAME_SERVER": cluster.name_server},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until(lambda: process.poll() is not None or answer(f"{url}/billed") is not None)
        assert process.poll() is None, log.read_text()
        yield url
        process.send_signal(signal.SIGTERM)
        # uvicorn ends by the signal that it was sent.
        assert process.wait(30) in (0, -signal.SIGTERM), log.read_text()
        assert "Application shutdown complete" in log.read_text()
        assert "Traceback" not in log.read_text()
    finally:
        process.kill()


def answer(url: str) -> Any:
    """None while the server does not answer."""
    try:
        return httpx.get(url, timeout=10).json()
    except httpx.TransportError:
        return None


def test_uvicorn_serves_an_application_that_sends_and_consumes(
    cluster: BlockingCluster, tmp_path: Path
) -> None:
    port = free_port()
    with served(cluster, tmp_path, port, "uvicorn", APPLICATION, "--port", str(port)) as url:
        assert httpx.post(f"{url}/orders/tea", timeout=10).json()["message_id"]
        wait_until(lambda: answer(f"{url}/billed") == ["tea!"])


def test_workers_of_gunicorn_have_clients_of_their_own(
    cluster: BlockingCluster, tmp_path: Path
) -> None:
    port = free_port()
    words = ("gunicorn", APPLICATION, "--preload", "-w", "2", "-b", f"127.0.0.1:{port}")
    worker = ("-k", "uvicorn.workers.UvicornWorker")
    with served(cluster, tmp_path, port, *words, *worker) as url:
        processes: set[int] = set()
        while len(processes) < 2:
            processes.add(httpx.post(f"{url}/orders/tea", timeout=10).json()["process"])
        sent = len(cluster.received("orders"))
        assert sent >= 2
        cluster.consumed("billing")
