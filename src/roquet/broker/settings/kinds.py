"""How the values of settings are written as text, in Apache's way."""

import re
from collections.abc import Callable
from enum import Enum
from math import ceil
from pathlib import Path
from typing import Any, Final, TypeVar, final

import msgspec

from roquet.access.own_account import read_own_account
from roquet.broker.errors import ConfigError
from roquet.net.address_server import read_source
from roquet.net.errors import BadAddress
from roquet.net.listening_place import read_place
from roquet.net.own_addresses import is_wildcard
from roquet.net.peers import split_address
from roquet.protocol.names import is_name
from roquet.settings.truth import is_plain_truth, read_truth, truth_text
from roquet.store.consume_queue import ENTRY_SIZE

E = TypeVar("E", bound=Enum)

NOT_SHOWN: Final = "(not shown)"
_UNITS_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_DELAY: Final = re.compile(r"([0-9]{1,6})([smhd])")
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")


@final
class SettingKind(msgspec.Struct, frozen=True):
    """`read` gets a text without blanks around it and raises ValueError; `write` is its reverse."""

    expected: str
    read: Callable[[str], Any]
    write: Callable[[Any], str] = str
    is_secret: bool = False

    def parse(self, key: str, text: str) -> Any:
        """Raises ConfigError."""
        try:
            return self.read(text.strip())
        except (ValueError, BadAddress):
            shown = NOT_SHOWN if self.is_secret else text
            raise ConfigError(key, shown, f"expected {self.expected}") from None


def number(low: int, high: int = 2**31 - 1) -> SettingKind:
    def read(text: str) -> int:
        value = _read_number(text)
        if not low <= value <= high:
            raise ValueError
        return value

    return SettingKind(f"a number from {low} to {high}", read)


def number_within(low: int, high: int) -> SettingKind:
    """Takes the nearest bound for a number beyond it."""
    return SettingKind("a number", lambda text: max(low, min(_read_number(text), high)))


def one_of(choices: type[E]) -> SettingKind:
    expected = " or ".join(choice.value for choice in choices)
    return SettingKind(expected, choices, lambda choice: str(choice.value))


def _read_number(text: str) -> int:
    # Not all that Python takes for a number: "1_000" is not one elsewhere.
    if not _NUMBER.fullmatch(text):
        raise ValueError
    return int(text)


def _read_clear_truth(text: str) -> bool:
    if not is_plain_truth(text):
        raise ValueError
    return read_truth(text)


def _read_text(text: str) -> str:
    if not text:
        raise ValueError
    return text


def _read_reachable_host(text: str) -> str:
    if is_wildcard(text):
        raise ValueError
    return text


def _read_topic(text: str) -> str:
    if not is_name(text):
        raise ValueError
    return text


def _read_directory(text: str) -> Path:
    # Apache spreads a log over several, separated by commas.
    if not text or "," in text:
        raise ValueError
    return Path(text)


def _read_addresses(text: str) -> tuple[str, ...]:
    read_source(text)
    return _read_words(text)


def _read_address(text: str) -> str | None:
    if not text:
        return None
    split_address(text)
    return text


def _read_etcd_servers(text: str) -> tuple[str, ...]:
    servers = tuple(filter(None, map(str.strip, text.split(","))))
    for server in servers:
        split_address(server.removeprefix("https://").removeprefix("http://"))
    return servers


def _read_words(text: str) -> tuple[str, ...]:
    return tuple(filter(None, map(str.strip, text.split(";"))))


def _read_hours(text: str) -> tuple[int, ...]:
    hours = tuple(map(_read_number, filter(None, map(str.strip, text.split(";")))))
    if not hours or not all(0 <= hour < 24 for hour in hours):
        raise ValueError
    return hours


def _read_delays(text: str) -> tuple[int, ...]:
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


def _read_queue_file_size(text: str) -> int:
    size = _read_number(text)
    if not ENTRY_SIZE <= size < 2**31:
        raise ValueError
    return ceil(size / ENTRY_SIZE) * ENTRY_SIZE


TEXT: Final = SettingKind("a text", _read_text)
TOPIC: Final = SettingKind("the name of a topic", _read_topic)
HOST: Final = SettingKind("a host", _read_text)
REACHABLE_HOST: Final = SettingKind("a host that clients can connect to", _read_reachable_host)
TRUTH: Final = SettingKind("true or false", read_truth, truth_text)
# Java takes everything else for false. Here that could mean an open door.
CLEAR_TRUTH: Final = SettingKind("true or false", _read_clear_truth, truth_text)
KEYS: Final = SettingKind("names of settings", _read_words, ";".join)
PORT: Final = number(0, 65_534)  # The next one is for replicas.
FILE: Final = SettingKind("a file", lambda text: Path(_read_text(text)))
OWN_ACCOUNT: Final = SettingKind(
    '{"accessKey":"...","secretKey":"..."}',
    read_own_account,
    lambda _account: NOT_SHOWN,
    is_secret=True,
)
DIRECTORY: Final = SettingKind("one directory", _read_directory)
ADDRESS: Final = SettingKind("host:port", _read_address)
PLACE: Final = SettingKind("HOST:PORT, or a port for this machine only", read_place)
ADDRESSES: Final = SettingKind(
    "host:port;host:port, or http://host:port/path", _read_addresses, ";".join
)
ETCD_SERVERS: Final = SettingKind(
    "host:port,host:port, or https://host:port", _read_etcd_servers, ",".join
)
HOURS: Final = SettingKind(
    "hours such as 04;16", _read_hours, lambda hours: ";".join(f"{hour:02}" for hour in hours)
)
DELAYS: Final = SettingKind(
    "times such as 1s 5m 2h", _read_delays, lambda delays: " ".join(map(_delay_text, delays))
)
# Apache rounds up to whole entries.
QUEUE_FILE_SIZE: Final = SettingKind("a number of bytes", _read_queue_file_size)
INTERVAL_MS: Final = number(1)
COUNT: Final = number(1)
PERCENT: Final = number(1, 100)
