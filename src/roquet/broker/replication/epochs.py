"""Which master wrote which part of a log: epochs, and where each of them starts.

An epoch is the time of one master, and a later master has a greater one. Within an epoch only its
master appends, so two logs that have the same epoch of the same author at the same offset are the
same up to there. (Without etcd, two masters that do not see each other may come to one number.)

    this log      | epoch 3      | epoch 7           |
    that log      | epoch 3           |
    in common     |--------------|

What lies before the first epoch that is known counts as epoch 0: it was written before there were
any.

`EpochFile` is what a broker remembers of them: `epochs.json`, beside the log.

    {"author": "9f27...", "seen": 7, "starts": [[3, 0, "51aa..."], [7, 40960, "9f27..."]],
     "office": {"is_master": true, "broker_id": 0},
     "ack_rule": {"policy": "one", "broker_count": 3}}

A broker that starts an epoch, or continues the log of one, records it here before it writes the
first byte. So the file may name an epoch that has nothing in the log, but never lack one that has.
`author` is the random name of this store. `office` is the role that an operator has assigned, which
overrides the settings. `ack_rule` is that of the last master this broker followed. `has_electorate`
means that etcd had a record of this broker name: if it is gone, etcd has lost its data.
`has_founded` means that `--found` was obeyed, and has been given at every start since.
`led` is the last epoch that this broker was the master of, 0 once it has followed another one; then
`displaced` says which one, and since when, until it becomes the master again.
"""

import os
from itertools import takewhile
from pathlib import Path
from typing import Final, NamedTuple, final

import msgspec
from msgspec.structs import replace

from roquet.broker.replication.in_sync import AckRule
from roquet.disk import Disk
from roquet.errors import RoquetError
from roquet.state_file import StateFile


class Epoch(msgspec.Struct, frozen=True):
    number: int
    author: str  # the store of its master; empty before there were epochs


class EpochStart(msgspec.Struct, frozen=True, array_like=True):
    epoch: int
    start: int  # the physical offset of its first record
    author: str = ""


class LogPlace(NamedTuple):
    """An end of a log: a later epoch is further, whatever the size."""

    epoch: int  # of the last byte
    end: int


START: Final = LogPlace(0, 0)

_BEFORE_ALL: Final = EpochStart(0, -1)


class EpochHistory(msgspec.Struct, frozen=True):
    """The epochs of one log, in its order. Both members of its entries only grow."""

    starts: tuple[EpochStart, ...] = ()

    @property
    def latest(self) -> int:
        return self.starts[-1].epoch if self.starts else 0

    def at(self, end: int) -> Epoch:
        """Of the last byte before `end`."""
        entry = next((each for each in reversed(self.starts) if each.start < end), _BEFORE_ALL)
        return Epoch(entry.epoch, entry.author)

    def with_epoch(self, epoch: int, start: int, author: str) -> "EpochHistory":
        """With one more. What started there, or later, has left nothing."""
        assert epoch > self.latest, "a later master has a greater epoch"
        return EpochHistory((*self.before(start).starts, EpochStart(epoch, start, author)))

    def before(self, end: int) -> "EpochHistory":
        """Of a log that is cut there."""
        return EpochHistory(tuple(each for each in self.starts if each.start < end))

    def last_reign_start(self, end: int) -> int:
        """Where the author of the last byte before `end` took over from another one."""
        starts = self.before(end).starts
        reign = takewhile(lambda each: each.author == starts[-1].author, reversed(starts))
        return min((each.start for each in reign), default=0)


def is_history(starts: tuple[EpochStart, ...]) -> bool:
    """Whether what was received, or read from a file, can be one."""
    before = _BEFORE_ALL
    for each in starts:
        if each.epoch <= before.epoch or each.start <= before.start:
            return False
        before = each
    return True


def common_end(history: EpochHistory, end: int, other_history: EpochHistory, other_end: int) -> int:
    """Up to where two logs that end there are the same."""
    shorter = min(end, other_end)
    starts = {each.start for each in (*history.starts, *other_history.starts)}
    ends = sorted({shorter, *(each for each in starts if each < shorter)}, reverse=True)
    return next((each for each in ends if history.at(each) == other_history.at(each)), 0)


FILE_NAME: Final = "epochs.json"


class AssignedRole(msgspec.Struct, frozen=True):
    is_master: bool
    broker_id: int


class Displacement(msgspec.Struct, frozen=True):
    """This broker was the master of `own_epoch`, until the one at `by` was, of a later epoch."""

    own_epoch: int
    by: str
    epoch: int
    since_ms: int


class _Remembered(msgspec.Struct, frozen=True):
    author: str
    seen: int = 0
    starts: tuple[EpochStart, ...] = ()
    assigned_role: AssignedRole | None = msgspec.field(default=None, name="office")
    ack_rule: AckRule | None = None
    has_electorate: bool = False
    has_founded: bool = False
    # None in files of earlier versions.
    led: int | None = None
    displaced: Displacement | None = None


class _BadEpochs(RoquetError):
    """The file does not have the expected content."""


@final
class EpochFile:
    """Belongs to the event loop. Everything that changes it raises StateNotSaved."""

    def __init__(self, disk: Disk, root: Path) -> None:
        """Raises BadStateFile: to continue without it could mix up two logs."""
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
        """The latest epoch that this broker knows of."""
        return max(self._remembered.seen, self.history.latest)

    @property
    def assigned_role(self) -> AssignedRole | None:
        return self._remembered.assigned_role

    @property
    def ack_rule(self) -> AckRule | None:
        """Of the last master that this broker has followed; None if it sent none."""
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
        history = self.history.with_epoch(epoch, start, self.author)
        self._save(replace(self._remembered, starts=history.starts, led=epoch, displaced=None))

    @property
    def led(self) -> int:
        """The last epoch that this broker was the master of, if it has followed none since."""
        if self._remembered.led is not None:
            return self._remembered.led
        latest = self.history.starts[-1:]
        return latest[0].epoch if latest and latest[0].author == self.author else 0

    @property
    def displaced(self) -> Displacement | None:
        return self._remembered.displaced

    def note_followed(self, epoch: int, by: str, now_ms: int) -> None:
        """This broker follows the master of that epoch from now on."""
        if 0 < self.led < epoch:
            displaced = Displacement(self.led, by, epoch, now_ms)
            self._save(replace(self._remembered, led=0, displaced=displaced))

    def follow(
        self, epoch: int, starts: tuple[EpochStart, ...], ack_rule: AckRule | None = None
    ) -> None:
        """The log continues with that of a master, which has these epochs and this rule."""
        changed = replace(
            self._remembered,
            seen=max(self.seen, epoch),
            starts=starts,
            ack_rule=ack_rule or self._remembered.ack_rule,
            led=self.led,
        )
        self._save(changed)

    def cut(self, end: int) -> None:
        """The log was cut there. Epochs that were seen are not forgotten."""
        starts = self.history.before(end).starts
        self._save(replace(self._remembered, seen=self.seen, starts=starts, led=self.led))

    def assign(self, role: AssignedRole) -> None:
        self._save(replace(self._remembered, assigned_role=role))

    def be_succeeded(self, epoch: int, *, slave_id: int) -> None:
        """Another broker is the master of that later epoch: this one starts as a slave now."""
        seen = max(self.seen, epoch)
        role = AssignedRole(is_master=False, broker_id=slave_id)
        self._save(replace(self._remembered, seen=seen, assigned_role=role))

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
        raise _BadEpochs("its epochs are not in ascending order")
    return remembered


class SharedSecret(msgspec.Struct, frozen=True):
    """What brokers of one name share, beyond Apache's protocol, and the epochs it protects."""

    key: bytes
    epochs: EpochFile
