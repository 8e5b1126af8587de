"""Can the small files in `config` be read: topics, groups, offsets, and what else a broker keeps?

A broker reads the backup when the file itself is broken, and starts without it when both are.
Both are reported: what the backup says is older.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from roquet.disk import Disk
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.groups import GroupConfigTable
from roquet.protocol.bodies.offsets import ConsumerOffsetTable, DelayOffsetTable
from roquet.protocol.bodies.topics import TopicConfigTable
from roquet.protocol.errors import BadBody
from roquet.state_file import DamagedState, unsealed
from roquet.store.damage import Fault
from roquet.store.files.layout import StoreLayout

_BACKUP: Final = ".bak"
_READ_SIZE: Final = 1 << 20
# Others have to be JSON, of whatever form.
_FORMS: Final[dict[str, Any]] = {
    "topics.json": TopicConfigTable,
    "subscriptionGroup.json": GroupConfigTable,
    "consumerOffset.json": ConsumerOffsetTable,
    "delayOffset.json": DelayOffsetTable,
}


def state_file_names(disk: Disk, layout: StoreLayout) -> list[str]:
    """Of all state files; one of which only the backup is there counts, too."""
    names = (each.name for each in disk.entries(layout.config) if not each.is_directory)
    plain_names = {name.removesuffix(_BACKUP) for name in names}
    return sorted(name for name in plain_names if name.endswith(".json"))


def state_faults(disk: Disk, layout: StoreLayout, names: list[str]) -> Iterator[Fault]:
    """Raises OSError."""
    for name in names:
        reason = _fault_in(disk, layout.config / name, name)
        if reason is not None:
            backup_reason = _fault_in(disk, layout.config / (name + _BACKUP), name)
            rest = "its backup is older, and used instead"
            if backup_reason is not None:
                rest = f"and its backup is no better: {backup_reason}; a broker starts without it"
            yield Fault("state", f"config/{name}", f"{reason}; {rest}")


def _fault_in(disk: Disk, path: Path, name: str) -> str | None:
    if not disk.exists(path):
        return "missing"
    content = _content(disk, path)
    if not content.strip():
        return "empty"
    try:
        read_body(_FORMS.get(name, Any), unsealed(content))
    except BadBody as error:
        return error.reason
    except DamagedState as error:
        return str(error)
    return None


def _content(disk: Disk, path: Path) -> bytes:
    descriptor = disk.open(path, writable=False)
    try:
        pieces = []
        position = 0
        while piece := disk.read(descriptor, position, _READ_SIZE):
            pieces.append(piece)
            position += len(piece)
        return b"".join(pieces)
    finally:
        disk.close(descriptor)
