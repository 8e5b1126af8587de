"""Addresses: host:port as text, where to listen, and under which address others reach a server.

A server may listen on all addresses of its machine at once, 0.0.0.0 or ::, but clients cannot
connect to "all addresses". They get an address that an operator configures, or a detected one: the
address from which this machine would send to the internet.
"""

import socket
from ipaddress import ip_address
from typing import Final, NamedTuple

from roquet.net.errors import BadAddress, UnknownHost
from roquet.protocol.host import Address


def split_address(address: str) -> tuple[str, int]:
    """Host and port of "host:port"; an IPv6 host may stand in brackets. Raises BadAddress."""
    host, _, port = address.strip().rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 0xFFFF:
        raise BadAddress(address)
    return host.removeprefix("[").removesuffix("]"), int(port)


def read_place(text: str) -> Address:
    """HOST:PORT, or a port for this machine only, not for all addresses. Raises BadAddress."""
    text = text.strip()
    if text.isascii() and text.isdigit():
        text = f"{_V4.loopback}:{text}"
    return Address(*split_address(text))


class _Family(NamedTuple):
    family: socket.AddressFamily
    loopback: str
    # Of a documentation network: a lookup of the route to it sends nothing.
    remote: str


_V4: Final = _Family(socket.AF_INET, "127.0.0.1", "198.51.100.1")
_V6: Final = _Family(socket.AF_INET6, "::1", "2001:db8::1")


def is_wildcard(host: str) -> bool:
    """Whether it stands for all addresses of a machine."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return not host


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def reachable_host(bind_host: str) -> str:
    """The address of a server that listens on `bind_host`, detected for a wildcard."""
    if not is_wildcard(bind_host):
        return bind_host
    family = _family_of(bind_host)
    with socket.socket(family.family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((family.remote, 9))
        except OSError:
            return family.loopback  # No route to other machines.
        return str(probe.getsockname()[0])


def local_host(bind_host: str) -> str:
    """Where this machine itself reaches a server that listens on `bind_host`."""
    return _family_of(bind_host).loopback if is_wildcard(bind_host) else bind_host


def ip_of(host: str) -> str:
    """The address of a host that may be a name. Raises UnknownHost."""
    try:
        # Most are ASCII; for others, Python loads encoding tables of a megabyte.
        name = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(name or None, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UnknownHost(host) from None
    # IPv4 first, which servers listen on by default, whatever the order of the resolver.
    found.sort(key=lambda each: each[0] is not socket.AF_INET)
    return str(found[0][4][0])


def _family_of(wildcard: str) -> _Family:
    return _V6 if ":" in wildcard else _V4
