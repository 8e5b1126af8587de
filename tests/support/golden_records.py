"""Every record in the commit logs of real Apache brokers."""

import tarfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from roquet.protocol.messages.record import MAGIC_BLANK, peek_record

STORES_DIR = Path(__file__).parent.parent / "golden" / "store"
RECORD_COUNT = 978


class GoldenRecord(NamedTuple):
    store: str
    physical_offset: int
    data: bytes

    @property
    def place(self) -> str:
        """Where to look at it: store and physical offset."""
        return f"{self.store}@{self.physical_offset}"


@cache
def golden_records() -> tuple[GoldenRecord, ...]:
    return tuple(
        GoldenRecord(store, file_offset + position, data)
        for store, file_offset, log in golden_log_files()
        for position, data in _cut(log)
    )


def golden_log_files() -> Iterator[tuple[str, int, bytes]]:
    """Store, physical offset of byte 0 and content of each commit log file."""
    for path in sorted(STORES_DIR.glob("*.tar.gz")):
        with tarfile.open(path) as archive:
            for member in archive:
                directory, _, name = member.name.rpartition("/")
                file = archive.extractfile(member)
                if file is not None and directory.endswith("/commitlog"):
                    yield path.name.removesuffix(".tar.gz"), int(name), file.read()


def _cut(log: bytes) -> Iterator[tuple[int, bytes]]:
    position = 0
    # What was never written is zero.
    while log[position : position + 4] != bytes(4):
        head = peek_record(log, position)
        if head.magic == MAGIC_BLANK:
            break
        yield position, log[position : position + head.size]
        position += head.size
