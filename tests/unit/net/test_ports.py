"""Servers that may have any port get one that no other is given meanwhile."""

import errno
import socket
from itertools import repeat

import pytest

from roquet.broker.settings.config import FAST_PORT_DISTANCE, HA_PORT_DISTANCE
from roquet.net import listening
from roquet.net.errors import NoFreePort
from roquet.net.listening import PORTS, at_free_port, free_port
from tests.support.raising import raises

HOST = "127.0.0.1"
LINUX_FIRST_OUTGOING_PORT = 32_768


def test_a_port_is_none_of_outgoing_connections() -> None:
    assert min(PORTS) >= 1024
    assert max(PORTS) < LINUX_FIRST_OUTGOING_PORT


def test_no_server_gets_a_port_that_another_may_open_later() -> None:
    given = [free_port(HOST) for _ in range(20)]
    assert len(set(given)) == len(given)


def test_a_port_is_no_neighbour_of_another_broker() -> None:
    distances = (0, FAST_PORT_DISTANCE, HA_PORT_DISTANCE)
    taken = [port + distance for port in PORTS for distance in distances]
    assert len(set(taken)) == len(taken)


def test_its_neighbours_are_free_too(monkeypatch: pytest.MonkeyPatch) -> None:
    port = free_port(HOST, -2)
    monkeypatch.setattr(listening, "turns", repeat(port))
    with socket.create_server((HOST, port - 2)):
        assert free_port(HOST, 1) == port
        with raises(NoFreePort, host=HOST):
            free_port(HOST, -2)


async def test_a_server_that_finds_its_port_taken_gets_another_one() -> None:
    tried: list[int] = []

    async def start(port: int) -> str:
        tried.append(port)
        if len(tried) < 3:
            raise OSError(errno.EADDRINUSE, "somebody was quicker")
        return "started"

    assert await at_free_port(HOST, start) == "started"
    assert len(tried) == 3


async def test_other_failures_are_not_tried_again() -> None:
    async def start(_port: int) -> None:
        raise OSError(errno.EACCES, "not allowed")

    with raises(OSError, errno=errno.EACCES):
        await at_free_port(HOST, start)


def test_a_host_that_is_elsewhere_is_no_lack_of_ports() -> None:
    with raises(OSError, errno=errno.EADDRNOTAVAIL):
        free_port("192.0.2.1")
