"""Errors of a store.

RoquetError
└── StoreError
    ├── StoreInUse         another process owns the directory
    ├── BadStoreDirectory  the files do not fit the configuration; nothing was changed
    │   └── SeveralStores  the directory holds directories of several brokers
    ├── FileGone           a file of a snapshot was removed
    ├── UnreadableTopic    its messages cannot be found in the log by topic
    ├── StoreUnavailable   costs the request; reading continues
    │   ├── DiskFull       passes when there is space again
    │   ├── TooManyFiles   passes when files of queues are closed
    │   ├── SyncFailed     permanent: nothing may be acknowledged any more
    │   ├── NotMaster      the store is that of a slave: its master accepts messages
    │   └── StoreClosed    permanent
    ├── ReplicaMismatch    bytes that do not continue the log of a slave
    └── BadRecord          a record is damaged; it is never handed out

Errors of a message, before it becomes a record, are in `protocol.errors`. `Damage` and
`DamagedRange` are no errors: damage that was found and passed over is reported by value.
"""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from roquet.disk import is_full
from roquet.errors import RoquetError
from roquet.process_limits import shortage_remedy


class StoreError(RoquetError):
    """Base of the errors of a store."""


class StoreInUse(StoreError):
    """Another process owns the directory."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path.parent} is in use: another process holds {path.name}")
        self.path = path


class BadStoreDirectory(StoreError):
    """The files do not fit the configuration."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class SeveralStores(BadStoreDirectory):
    """There are several stores below a directory, and it is not clear which one is meant."""

    def __init__(self, path: Path, stores: Sequence[Path]) -> None:
        listed = ", ".join(str(each) for each in stores)
        super().__init__(path, f"several stores below this directory, name one of them: {listed}")
        self.stores = tuple(stores)


class FileGone(StoreError):
    """A file of a snapshot cannot be opened any more."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return (
            f"{self.path} was removed after the snapshot was taken, or is not visible here. "
            "A broker removes expired files (fileReservedTime): take a new snapshot, or have the "
            "broker keep files for longer than it takes to read them"
        )


class UnreadableTopic(StoreError):
    """The queues of a topic are of a kind that does not show which records are its messages."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"topic {topic} cannot be read from files: {reason}")
        self.topic = topic
        self.reason = reason


class StoreUnavailable(StoreError):
    """Nothing can be appended now; what is stored can be read."""


class DiskFull(StoreUnavailable):
    """There is no space left; appends resume when there is.

    `used_percent` is how full the disk is, if that is more than the store may use of it.
    """

    def __init__(self, reason: str, used_percent: int | None = None) -> None:
        super().__init__(reason, used_percent)
        self.reason = reason
        self.used_percent = used_percent

    def __str__(self) -> str:
        return self.reason


class TooManyFiles(StoreUnavailable):
    """The process has no descriptor, or no mapping, for one more file of a queue."""


class SyncFailed(StoreUnavailable):
    """A sync failed.

    The kernel reports this once and may have dropped the data, so a later sync that succeeds
    proves nothing. The process should end; recovery finds out what is on disk.
    """


class NotMaster(StoreUnavailable):
    """The store is that of a slave: only its master accepts messages."""


class ReplicaMismatch(StoreError):
    """The bytes of the master do not continue the log of the slave; none were written.

    `setting` is the option that both must have in common, if it is to blame.
    """

    def __init__(self, reason: str, setting: str | None = None) -> None:
        remedy = "" if setting is None else f": {setting} must be that of the master"
        super().__init__(reason + remedy)
        self.setting = setting


class StoreClosed(StoreUnavailable):
    """The store was closed by its owner."""


def refusal_of(error: OSError) -> StoreUnavailable:
    """The error for an append that failed so."""
    remedy = shortage_remedy(error)
    if remedy is not None:
        return TooManyFiles(f"too many files are open: {error.strerror}; try again, or {remedy}")
    kind = DiskFull if is_full(error) else StoreUnavailable
    return kind(f"the store cannot write: {error}")


class BadRecord(StoreError):
    """There is no whole, undamaged record at this physical offset."""

    def __init__(self, physical_offset: int, reason: str) -> None:
        super().__init__(f"record at {physical_offset}: {reason}")
        self.physical_offset = physical_offset
        self.reason = reason


class Damage(msgspec.Struct, frozen=True):
    """A physical offset that a queue entry points to without a message there."""

    physical_offset: int
    reason: str


class DamagedRange(msgspec.Struct, frozen=True):
    """Bytes of the log that hold no good record, followed by good ones."""

    start: int
    end: int
    reason: str
