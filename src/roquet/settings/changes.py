"""Settings that were changed while a server ran, and which of them count after a restart.

    changedSettings.json   {"brokerPermission":{"value":"4","started_with":"6"}}

A change stays in force over restarts until the server is started with something else for the same
setting than it was before the change: then the file of the operator wins, and the change is
forgotten for good. That is why the value that the server had been started with is kept beside
each change. To be rid of all changes, stop the server and remove the file.

Apache writes changes into the file that the server was started with. We leave the operator's file
alone: it may be shared, kept under version control or not be ours to write.
"""

import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeVar, final

import msgspec

from roquet.errors import RoquetError

log = logging.getLogger(__name__)

FILE_NAME: Final = "changedSettings.json"

C = TypeVar("C")


class BadChanges(RoquetError):
    """What the file holds is no table of changes."""


class _Change(msgspec.Struct, frozen=True):
    value: str
    started_with: str


_Table = dict[str, _Change]


@final
class ChangedSettings:
    """`start` is what the server was started with: every setting that may be changed, as text."""

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
        """A setting that has the value again that the server was started with is not changed."""
        for key, value in values.items():
            started_with = self._start[key]
            if value == started_with:
                self._table.pop(key, None)
            else:
                self._table[key] = _Change(value, started_with)
        self.change_count += 1

    def applied_to(self, config: C, change: Callable[[C, Mapping[str, str]], C]) -> C:
        """`config` with what is still in force; what is not is forgotten, and logged.

        `change` raises a RoquetError for what cannot be changed, or not like that.
        """
        for key, known in list(self._table.items()):
            start = self._start.get(key)
            if start != known.started_with:
                self._forget(key)
                log.info(
                    "%s=%s: what the server is started with is new, and wins over %s, to which it "
                    "had been changed at run time",
                    *(key, start, known.value),
                )
                continue
            try:
                config = change(config, {key: known.value})
            except RoquetError as error:
                self._forget(key)
                log.warning("%s=%s is forgotten: %s", key, known.value, error)
            else:
                log.info(
                    "%s=%s: a change at run time wins over %s, which the server is started with",
                    *(key, known.value, start),
                )
        return config

    def _forget(self, key: str) -> None:
        del self._table[key]
        self.change_count += 1
