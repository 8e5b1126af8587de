"""Versions of the tables of topics and groups, and which of two is the later one.

Apache's versions have no order: a slave takes its master's table over whenever the two differ.
Where masters have epochs, there is one: first the epoch of the master that made the change, as
`stateVersion`, then its count of changes. By that order a slave does not return to a table that is
older than what the log has brought it.

What a slave has of the log, or created itself, is the master's table only in part. Such a table has
a version without a time, and gives way to the next table of the master that is not older.
"""

from typing import Final

from msgspec.structs import replace

from roquet.protocol.bodies.body import DataVersion

# In place of the time of a version.
IN_PART: Final = 0


def is_later(version: DataVersion, known: DataVersion) -> bool:
    """Whether a change of that version is not in a table of the other one yet."""
    return _order(version) > _order(known)


def gives_way(known: DataVersion, master: DataVersion, *, has_epochs: bool) -> bool:
    """Whether a slave takes over its master's table, by their versions."""
    if master == known:
        return False
    # Tables of a master without epochs have no order.
    return not has_epochs or not master.state_version or _order(master) >= _order(known)


def is_of_epoch(version: DataVersion, *, has_epochs: bool) -> bool:
    """Whether the table comes from a master that writes each change of it to its log."""
    return has_epochs and version.state_version > 0


def changed(version: DataVersion, now_ms: int) -> DataVersion:
    """After a change by the master."""
    return replace(version, counter=version.counter + 1, timestamp=now_ms)


def led(version: DataVersion, epoch: int, now_ms: int) -> DataVersion:
    """Of a table whose broker becomes the master of an epoch."""
    return changed(replace(version, state_version=epoch), now_ms)


def in_part(version: DataVersion) -> DataVersion:
    """After a change that is not, or may not be, all that the master has changed."""
    return replace(version, timestamp=IN_PART)


def _order(version: DataVersion) -> tuple[int, int]:
    return version.state_version, version.counter
