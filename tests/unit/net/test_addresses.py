"""The address of a server as others get it."""

import socket
from ipaddress import ip_address

import pytest

from roquet.net.addresses import (
    ip_of,
    is_loopback,
    is_wildcard,
    local_host,
    reachable_host,
)
from roquet.net.errors import UnknownHost
from tests.support.raising import raises

WILDCARDS = ["0.0.0.0", "::", "0:0:0:0:0:0:0:0", ""]  # noqa: S104


@pytest.mark.parametrize("host", WILDCARDS)
def test_addresses_are_tried_one_after_the_other(host: str) -> None:
    assert is_wildcard(host)
    assert not is_wildcard(reachable_host(host))
    assert ip_address(reachable_host(host)).version == (6 if ":" in host else 4)
    assert is_loopback(local_host(host))


@pytest.mark.parametrize("host", ["127.0.0.1", "10.1.2.3", "::1", "broker.example"])
def test_an_address_that_is_named_is_reported_as_it_is(host: str) -> None:
    assert not is_wildcard(host)
    assert reachable_host(host) == local_host(host) == host


def test_a_machine_without_a_network_finds_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    class Alone(socket.socket):
        def connect(self, _address: object) -> None:
            raise OSError(101, "Network is unreachable")

    monkeypatch.setattr(socket, "socket", Alone)
    assert reachable_host("0.0.0.0") == "127.0.0.1"  # noqa: S104
    assert reachable_host("::") == "::1"


def test_names_are_looked_up() -> None:
    assert ip_of("localhost") == "127.0.0.1"
    assert ip_of("10.1.2.3") == "10.1.2.3"
    assert ip_of("::1") == "::1"


@pytest.mark.parametrize("host", ["nowhere.invalid", "größe.invalid", "x" * 64 + ".invalid"])
def test_a_name_that_is_unknown_is_reported(host: str) -> None:
    with raises(UnknownHost, host=host):
        ip_of(host)
