"""What a broker remembers of epochs, whatever happens to it: `epochs.json`, beside the log.

    {"author": "9f27...", "seen": 7, "starts": [[3, 0, "51aa..."], [7, 40960, "9f27..."]],
     "office": {"is_master": true, "broker_id": 0},
     "ack_rule": {"policy": "one", "broker_count": 3}}

Whoever begins an epoch, or goes on with the log of one, notes it here before the first byte of it
is written. So the file may name an epoch that has nothing in the log, but never lack one that has.
`author` is the name of this store, made up when it was new.
`office` is what an operator has made of this broker, whatever its settings say. `ack_rule` is that
of the last master this broker has followed. `has_electorate` says that etcd knew brokers of this
name: if it does not any more, it has lost its data. `has_founded` says that `--found` was obeyed,
and has not been left out since.
"""

import os
from pathlib import Path
from typing import Final, final

import msgspec
from msgspec.structs import replace

from roquet.broker.replication.acknowledging import AckRule
from roquet.broker.replication.epochs import EpochHistory, EpochStart, is_history
from roquet.broker.replication.succession import Succession
from roquet.disk import Disk
from roquet.errors import RoquetError
from roquet.state_file import StateFile

FILE_NAME: Final = "epochs.json"


class Office(msgspec.Struct, frozen=True):
    is_master: bool
    broker_id: int


class _Remembered(msgspec.Struct, frozen=True):
    author: str
    seen: int = 0
    starts: tuple[EpochStart, ...] = ()
    office: Office | None = None
    ack_rule: AckRule | None = None
    has_electorate: bool = False
    has_founded: bool = False


class _BadEpochs(RoquetError):
    """The file does not say what it should."""


@final
class EpochFile:
    """Belongs to the event loop. Everything that changes it raises StateNotSaved."""

    def __init__(self, disk: Disk, root: Path) -> None:
        """Raises BadStateFile: to go on without it could mix up two logs."""
        self._file = StateFile(disk, root / FILE_NAME)
        self._remembered = self._file.load(_parsed) or _Remembered(os.urandom(8).hex())

    @property
    def history(self) -> EpochHistory:
        return EpochHistory(self._remembered.starts)

    @property
    def author(self) -> str:
        return self._remembered.author

    @property
    def seen(self) -> int:
        """The latest epoch that this broker has heard of."""
        return max(self._remembered.seen, self.history.latest)

    @property
    def office(self) -> Office | None:
        return self._remembered.office

    @property
    def ack_rule(self) -> AckRule | None:
        """Of the last master that this broker has followed; None if it told none."""
        return self._remembered.ack_rule

    @property
    def has_electorate(self) -> bool:
        return self._remembered.has_electorate

    def note_electorate(self) -> None:
        """etcd has a record of who is in sync."""
        self._save(replace(self._remembered, has_electorate=True))

    @property
    def has_founded(self) -> bool:
        return self._remembered.has_founded

    def note_founded(self, *, is_founded: bool) -> None:
        self._save(replace(self._remembered, has_founded=is_founded))

    def see(self, epoch: int) -> None:
        """There is a master of that epoch."""
        if epoch > self.seen:
            self._save(replace(self._remembered, seen=epoch))

    def begin(self, epoch: int, start: int) -> None:
        """This broker is the master of that epoch, and appends from there on."""
        history = self.history.begun(epoch, start, self.author)
        self._save(replace(self._remembered, starts=history.starts))

    def follow(
        self, epoch: int, starts: tuple[EpochStart, ...], ack_rule: AckRule | None = None
    ) -> None:
        """The log goes on with that of a master, which has these epochs and this rule."""
        changed = replace(
            self._remembered,
            seen=max(self.seen, epoch),
            starts=starts,
            ack_rule=ack_rule or self._remembered.ack_rule,
        )
        self._save(changed)

    def cut(self, end: int) -> None:
        """The log was cut there. What was heard of is not forgotten."""
        starts = self.history.before(end).starts
        self._save(replace(self._remembered, seen=self.seen, starts=starts))

    def appoint(self, office: Office) -> None:
        self._save(replace(self._remembered, office=office))

    def be_succeeded(self, succession: Succession) -> None:
        """Another broker is the master of a later epoch: this one starts as a slave from now on."""
        seen = max(self.seen, succession.by.epoch)
        office = Office(is_master=False, broker_id=succession.free_id)
        self._save(replace(self._remembered, seen=seen, office=office))

    def _save(self, remembered: _Remembered) -> None:
        if remembered != self._remembered:
            self._file.save(msgspec.json.encode(remembered))
            self._remembered = remembered


def _parsed(content: bytes) -> _Remembered:
    try:
        remembered = msgspec.json.decode(content, type=_Remembered)
    except msgspec.MsgspecError as error:
        raise _BadEpochs(str(error)) from None
    if not is_history(remembered.starts):
        raise _BadEpochs("its epochs do not follow one another")
    return remembered
