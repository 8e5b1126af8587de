"""Settings that were changed while a server ran, and which of them count after a restart.

    changedSettings.json   {"brokerPermission":{"value":"4","started_with":"6"}}

A change survives restarts until the configured value of the same option differs from what it was
before the change: then the file of the operator takes precedence, and the change is dropped. That
is why the configured value is stored with each change. To drop all changes, stop the server and
remove the file.

Apache writes changes into the file that the server was started with. We leave the operator's file
alone: it may be shared, kept under version control or read-only.

The log level is here because every server can change it while it runs, and so is the text of a
change, for what else operators change.
"""

import logging
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, TypeVar, final

import msgspec

from roquet.errors import RoquetError

log = logging.getLogger(__name__)

FILE_NAME: Final = "changedSettings.json"

C = TypeVar("C")


class BadChanges(RoquetError):
    """The file does not contain a table of changes."""


class _Change(msgspec.Struct, frozen=True):
    value: str
    started_with: str


_Table = dict[str, _Change]


@final
class ChangedSettings:
    """`start` has the configured values: every option that may be changed, as text."""

    def __init__(self, start: Mapping[str, str]) -> None:
        self._start = start
        self._table: _Table = {}
        self.change_count = 0

    def load(self, data: bytes) -> list[str]:
        """Nothing is ever left out. Raises BadChanges."""
        try:
            self._table = msgspec.json.decode(data, type=_Table)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise BadChanges(str(error)) from None
        return []

    def to_bytes(self) -> bytes:
        return msgspec.json.encode(self._table)

    def note(self, values: Mapping[str, str]) -> None:
        """A change back to the configured value removes the entry."""
        for key, value in values.items():
            started_with = self._start[key]
            if value == started_with:
                self._table.pop(key, None)
            else:
                self._table[key] = _Change(value, started_with)
        self.change_count += 1

    def configured(self) -> dict[str, str]:
        """What is configured for the options that were changed to something else."""
        return {key: each.started_with for key, each in self._table.items()}

    def applied_to(self, config: C, change: Callable[[C, Mapping[str, str]], C]) -> C:
        """`config` with the changes that still apply; the others are dropped, and logged.

        `change` raises a RoquetError for what cannot be changed, or not like that.
        """
        for key, known in list(self._table.items()):
            start = self._start.get(key)
            if start != known.started_with:
                self._forget(key)
                log.info(
                    "%s=%s: the configured value has changed and replaces %s, set at run time",
                    *(key, start, known.value),
                )
                continue
            try:
                config = change(config, {key: known.value})
            except RoquetError as error:
                self._forget(key)
                log.warning("dropped %s=%s, which was set at run time: %s", key, known.value, error)
            else:
                log.info(
                    "%s=%s: set at run time, replaces the configured value %s",
                    *(key, known.value, start),
                )
        return config

    def _forget(self, key: str) -> None:
        del self._table[key]
        self.change_count += 1


def change_text(old: Mapping[str, object] | None, new: Mapping[str, object]) -> str:
    """A change as logs have it: "perm 6 -> 4, order False -> True"; all of what is new."""
    if old is None:
        return ", ".join(f"{key}={value}" for key, value in new.items())
    parts = [
        f"{key} {old.get(key)} -> {value}" for key, value in new.items() if old.get(key) != value
    ]
    return ", ".join(parts) or "nothing"


class LogLevel(Enum):
    """The lowest level that is logged, by Python's names."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


LOG_LEVEL_DEFAULT: Final = LogLevel.INFO


def obey_log_level(level: LogLevel) -> None:
    """Sets the level of all loggers of roquet in this process."""
    logging.getLogger("roquet").setLevel(level.value)


def obey_log_level_from_start(level: LogLevel) -> None:
    """Without a configured level, logging is left to the program that runs the server."""
    if level is not LOG_LEVEL_DEFAULT:
        obey_log_level(level)
