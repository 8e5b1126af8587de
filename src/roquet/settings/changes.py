"""Settings that were changed while a server ran, and which of them count after a restart.

    changedSettings.json   {"brokerPermission":{"value":"4","started_with":"6"}}

A change stays in force over restarts until the server is started with something else for the same
setting than it was before the change: then the file of the operator wins, and the change is
forgotten for good. That is why the value that the server had been started with is kept beside
each change. Who wants to be rid of all changes stops the server and removes the file.

Apache writes changes into the file that the server was started with. We do not touch the
operator's file: it may be shared, kept elsewhere or not be ours to write.
"""

from collections.abc import Mapping
from typing import Final, final

import msgspec

from roquet.errors import RoquetError

FILE_NAME: Final = "changedSettings.json"


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

    @property
    def values(self) -> dict[str, str]:
        return {key: change.value for key, change in self._table.items()}

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
        """What has the value again that the server was started with is no change any more."""
        for key, value in values.items():
            started_with = self._start[key]
            if value == started_with:
                self._table.pop(key, None)
            else:
                self._table[key] = _Change(value, started_with)
        self.change_count += 1

    def forget(self, key: str) -> None:
        if self._table.pop(key, None) is not None:
            self.change_count += 1

    def forget_overruled(self) -> dict[str, str]:
        """Forgets what the server was started anew with, and returns it with the values it had."""
        overruled = {
            key: change.value
            for key, change in self._table.items()
            if self._start.get(key) != change.started_with
        }
        for key in overruled:
            self.forget(key)
        return overruled
