"""Kinds of options that only brokers have, written as Apache writes them."""

import re
from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Final, TypeVar

from roquet.access.accounts import read_own_account
from roquet.net.address_server import read_source
from roquet.net.addresses import is_wildcard, read_place, split_address
from roquet.net.errors import BadAddress
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.brokers import User
from roquet.protocol.errors import BadBody
from roquet.protocol.names import is_name
from roquet.settings.options import (
    NOT_SHOWN,
    TEXT,
    OptionKind,
    number,
    parse_number,
    split_list,
)
from roquet.store.consume_queue import ENTRY_SIZE

T = TypeVar("T")

_UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_DELAY: Final = re.compile(r"([0-9]{1,6})([smhd])")


def _of_addresses(parse: Callable[[str], T]) -> Callable[[str], T]:
    def parse_addresses(text: str) -> T:
        try:
            return parse(text)
        except BadAddress:
            raise ValueError from None

    return parse_addresses


def _parse_reachable_host(text: str) -> str:
    if is_wildcard(text):
        raise ValueError
    return text


def _parse_topic(text: str) -> str:
    if not is_name(text):
        raise ValueError
    return text


def _parse_directory(text: str) -> Path:
    # Apache takes several, separated by commas.
    if not text or "," in text:
        raise ValueError
    return Path(text)


def _parse_addresses(text: str) -> tuple[str, ...]:
    read_source(text)
    return split_list(text)


def _parse_address(text: str) -> str | None:
    if not text:
        return None
    split_address(text)
    return text


def _parse_etcd_servers(text: str) -> tuple[str, ...]:
    servers = split_list(text, ",")
    for server in servers:
        split_address(server.removeprefix("https://").removeprefix("http://"))
    return servers


def _parse_user(text: str) -> User:
    """Raises ValueError, which does not show the text."""
    try:
        user = read_body(User, text.encode())
    except BadBody:
        raise ValueError("no user") from None
    if not user.username or not user.password:
        raise ValueError("no user")
    return user


def _parse_codes(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _parse_hours(text: str) -> tuple[int, ...]:
    hours = tuple(map(parse_number, split_list(text)))
    if not hours or not all(0 <= hour < 24 for hour in hours):
        raise ValueError
    return hours


def _parse_delays(text: str) -> tuple[int, ...]:
    matches = [_DELAY.fullmatch(word) for word in text.split()]
    delays = tuple(int(match[1]) * _UNITS_MS[match[2]] for match in matches if match)
    if not delays or len(delays) < len(matches):
        raise ValueError
    return delays


def _delay_text(delay_ms: int) -> str:
    unit, unit_ms = next(
        (unit, unit_ms) for unit, unit_ms in _UNITS_MS.items() if delay_ms % unit_ms == 0
    )
    return f"{delay_ms // unit_ms}{unit}"


def _parse_queue_file_size(text: str) -> int:
    size = parse_number(text)
    if not ENTRY_SIZE <= size < 2**31:
        raise ValueError
    return ceil(size / ENTRY_SIZE) * ENTRY_SIZE


TOPIC: Final = OptionKind("the name of a topic", _parse_topic)
HOST: Final = OptionKind("a host", TEXT.parse)
REACHABLE_HOST: Final = OptionKind("a host that clients can connect to", _parse_reachable_host)
PORT: Final = number(0, 65_534)  # The next one is for replicas.
OWN_ACCOUNT: Final = OptionKind(
    '{"accessKey":"...","secretKey":"..."}',
    read_own_account,
    lambda _account: NOT_SHOWN,
    is_secret=True,
)
FIRST_USER: Final = OptionKind(
    '{"username":"...","password":"..."}', _parse_user, lambda _user: NOT_SHOWN, is_secret=True
)
CODES: Final = OptionKind("request codes, separated by commas", _parse_codes, ",".join)
DIRECTORY: Final = OptionKind("one directory", _parse_directory)
ADDRESS: Final = OptionKind("host:port", _of_addresses(_parse_address))
PLACE: Final = OptionKind("HOST:PORT, or a port for this machine only", _of_addresses(read_place))
ADDRESSES: Final = OptionKind(
    "host:port;host:port, or http://host:port/path", _of_addresses(_parse_addresses), ";".join
)
ETCD_SERVERS: Final = OptionKind(
    "host:port,host:port, or https://host:port", _of_addresses(_parse_etcd_servers), ",".join
)
HOURS: Final = OptionKind(
    "hours such as 04;16", _parse_hours, lambda hours: ";".join(f"{hour:02}" for hour in hours)
)
DELAYS: Final = OptionKind(
    "times such as 1s 5m 2h", _parse_delays, lambda delays: " ".join(map(_delay_text, delays))
)
# Rounded up to whole entries, as Apache does.
QUEUE_FILE_SIZE: Final = OptionKind("a number of bytes", _parse_queue_file_size)
