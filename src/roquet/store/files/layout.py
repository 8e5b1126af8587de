"""Names in a store directory.

    commitlog/00000000001073741824                records, from this physical offset on
    consumequeue/TopicA/0/00000000000006000000    entries of one queue, from this byte on
    index/20261115202523142                       keys, named by local time
    config/*.json                                 state of the broker
    checkpoint  abort  lock
    deleted-queues.json  checksummed.json         ours; Apache ignores them
    cut/00000000001073742000                      ours: what was cut off the log there
    divergent/00000000001073742000                ours: the same, of what no other replica had
    divergent/00000000001073742000.resent.json    ours: which of it was sent again
    epochs.json                                   ours: which master wrote what

A file is created as `commitlog.new`, next to the directory, and renamed when it has its full size,
because Apache refuses a directory that holds a file of any other size.
"""

from pathlib import Path
from typing import Final

import msgspec

FILE_NAME_SIZE: Final = 20
TOPIC_NAME_SIZE_MAX: Final = 255
_QUEUES: Final = "consumequeue"


class StoreLayout(msgspec.Struct, frozen=True):
    root: Path
    commit_log: Path

    @property
    def queues(self) -> Path:
        return self.root / _QUEUES

    @property
    def index(self) -> Path:
        return self.root / "index"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @property
    def abort(self) -> Path:
        return self.root / "abort"

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def deletions(self) -> Path:
        return self.root / "deleted-queues.json"

    @property
    def checksummed(self) -> Path:
        return self.root / "checksummed.json"

    @property
    def cut(self) -> Path:
        return self.root / "cut"

    @property
    def divergent(self) -> Path:
        return self.root / "divergent"

    def queue(self, topic: str, queue_id: int) -> Path:
        # There may be tens of thousands, and each step would be a path of its own.
        return self.root.joinpath(_QUEUES, topic, str(queue_id))


def layout_of(root: Path, commit_log: Path | None = None) -> StoreLayout:
    return StoreLayout(root, commit_log or root / "commitlog")


def file_name(start: int) -> str:
    return f"{start:020d}"


def start_of(name: str) -> int | None:
    """The offset that a file is named by; None for other names."""
    if len(name) == FILE_NAME_SIZE and name.isascii() and name.isdigit():
        return int(name)
    return None


def aside(directory: Path) -> Path:
    """The path of a file for `directory` before it is complete."""
    return directory.with_name(directory.name + ".new")


def is_directory_name(topic: bytes) -> bool:
    """Whether a topic found in a record may become a directory.

    This is about paths only: brokers are stricter, but their system topics are named after
    hosts and clusters, and a message that is in the log must stay readable.
    """
    return (
        0 < len(topic) <= TOPIC_NAME_SIZE_MAX
        and topic not in (b".", b"..")
        and not any(byte in b"/\\" or byte < 0x20 for byte in topic)
        and _is_text(topic)
    )


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
