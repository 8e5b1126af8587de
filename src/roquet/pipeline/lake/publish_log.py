"""The log of a lake: one file for each entry, made whole and by one writer only.

It is only ever added to, so whoever has read it reads on from there.
"""

from pathlib import Path
from typing import Final, final

import msgspec

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.durable import create_whole
from roquet.pipeline.lake.entries import ENTRY_VERSION, LakeEntry
from roquet.pipeline.lake.file_names import CONTROL_DIRECTORY
from roquet.pipeline.lake.state import LakeState

LOG_DIRECTORY: Final = f"{CONTROL_DIRECTORY}/log"

_decode = msgspec.json.Decoder(LakeEntry).decode


@final
class PublishLog:
    """The entries of a lake, and the state they lead to as far as they were read."""

    def __init__(self, lake: Path) -> None:
        self._directory = lake / LOG_DIRECTORY
        self.state = LakeState()
        self.last_entry: LakeEntry | None = None

    def refresh(self) -> LakeState:
        """Read what was added since. Raises BadLake."""
        while (entry := self._read(self.state.entry_number + 1)) is not None:
            self.state.apply(entry)
            self.last_entry = entry
        return self.state

    def append(self, entry: LakeEntry) -> None:
        """Returns when the entry is safe. Raises BadLake if another writer was faster."""
        try:
            create_whole(self._path(entry.number), msgspec.json.encode(entry))
        except FileExistsError:
            raise another_writer(self._directory.parent.parent) from None
        self.state.apply(entry)
        self.last_entry = entry

    def _read(self, number: int) -> LakeEntry | None:
        path = self._path(number)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            return None
        try:
            entry = _decode(content)
        except msgspec.DecodeError as error:
            raise BadLake(f"{path} is damaged: {error}") from None
        if entry.version != ENTRY_VERSION:
            raise BadLake(
                f"{path} has version {entry.version}, and this Roquet reads {ENTRY_VERSION}:"
                " a newer one wrote it"
            )
        return entry

    def _path(self, number: int) -> Path:
        return self._directory / f"{number:020}.json"


def another_writer(lake: Path) -> BadLake:
    return BadLake(
        f"another process writes to the lake {lake}: one writer at a time; start this one again"
        " when the other has ended"
    )
