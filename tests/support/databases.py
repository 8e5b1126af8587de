"""Servers of databases for tests: PostgreSQL and Redis as Debian has them, gone afterwards."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
import redis

from tests.support.eventually import wait_until

_POSTGRES_HOMES = "/usr/lib/postgresql"
_POSTGRES_USER = "postgres"


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of a new server for SQLAlchemy, without durability; skips where there is none."""
    home = _postgres_home()
    if home is None:
        pytest.skip("PostgreSQL is not installed: Debian's `postgresql`")
    # The name of a socket must be short.
    directory = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp"))
    # It refuses to run as root.
    user = _POSTGRES_USER if os.getuid() == 0 else None
    if user is not None:
        shutil.chown(directory, user)
    data = directory / "data"
    command: list[str | Path] = [
        home / "initdb",
        "-D",
        data,
        "-U",
        _POSTGRES_USER,
        "--auth=trust",
        "--no-sync",
    ]
    subprocess.run(command, check=True, user=user, stdout=subprocess.DEVNULL, cwd=directory)
    options = ["-c", "listen_addresses=", "-c", "fsync=off", "-c", "max_connections=200"]
    with (directory / "log").open("wb") as log:
        server = subprocess.Popen(
            [home / "postgres", "-D", data, "-k", directory, *options],
            user=user,
            stdout=log,
            stderr=log,
            cwd=directory,
        )
    try:
        wait_until(lambda: _answers(directory))
        yield f"postgresql+psycopg://{_POSTGRES_USER}@/postgres?host={directory}"
    finally:
        server.send_signal(signal.SIGQUIT)
        server.wait(60)
        shutil.rmtree(directory)


@contextmanager
def redis_server(directory: Path) -> Iterator[str]:
    """The URL of a new server; skips where there is none."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("Redis is not installed: Debian's `redis-server`")
    socket = Path(tempfile.mkdtemp(prefix="redis-", dir="/tmp")) / "socket"
    options: list[str | Path] = [
        "--port",
        "0",
        "--unixsocket",
        socket,
        "--save",
        "",
        "--dir",
        directory,
    ]
    server = subprocess.Popen([program, *options], stdout=subprocess.DEVNULL)
    try:
        wait_until(socket.exists)
        with redis.Redis(unix_socket_path=str(socket)) as client:
            wait_until(client.ping)
        yield f"unix://{socket}"
    finally:
        server.terminate()
        server.wait(60)
        shutil.rmtree(socket.parent)


def _postgres_home() -> Path | None:
    homes = sorted(Path(_POSTGRES_HOMES).glob("*/bin/initdb"))
    found = homes[-1] if homes else shutil.which("initdb")
    return None if found is None else Path(found).parent


def _answers(directory: Path) -> bool:
    try:
        psycopg.connect(f"host={directory} user={_POSTGRES_USER} dbname=postgres").close()
    except psycopg.OperationalError:
        return False
    return True
