"""Under which address others find a server of this machine.

A server may listen on all addresses of its machine at once, 0.0.0.0 or ::, but nobody can connect
to "all addresses". What others are told is an address that an operator names, or a guess: the one
from which this machine would talk to the rest of the world.
"""

import socket
from ipaddress import ip_address
from typing import Final, NamedTuple

from roquet.net.errors import UnknownHost


class _Family(NamedTuple):
    family: socket.AddressFamily
    loopback: str
    # Of a network for examples: nobody is there, and asking for the way sends nothing.
    far_away: str


_V4: Final = _Family(socket.AF_INET, "127.0.0.1", "198.51.100.1")
_V6: Final = _Family(socket.AF_INET6, "::1", "2001:db8::1")


def is_wildcard(host: str) -> bool:
    """Whether it stands for all addresses of a machine."""
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return not host


def is_loopback(host: str) -> bool:
    """Whether only this machine finds it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def reachable_host(bind_host: str) -> str:
    """Where others find who listens on `bind_host`; a guess if that is a wildcard."""
    if not is_wildcard(bind_host):
        return bind_host
    family = _family_of(bind_host)
    with socket.socket(family.family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((family.far_away, 9))
        except OSError:
            return family.loopback  # There is no way to anybody else.
        return str(probe.getsockname()[0])


def local_host(bind_host: str) -> str:
    """Where this machine itself finds who listens on `bind_host`."""
    return _family_of(bind_host).loopback if is_wildcard(bind_host) else bind_host


def ip_of(host: str) -> str:
    """The address of a host that may be a name. Raises UnknownHost."""
    try:
        # Most are ASCII; to encode others, Python loads tables of a megabyte.
        name = host.encode() if host.isascii() else host
        found = socket.getaddrinfo(name or None, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise UnknownHost(host) from None
    # What servers listen on by default comes first, whatever order names are looked up in.
    found.sort(key=lambda each: each[0] is not socket.AF_INET)
    return str(found[0][4][0])


def _family_of(wildcard: str) -> _Family:
    return _V6 if ":" in wildcard else _V4
