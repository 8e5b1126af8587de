"""The entries of the log of a lake: what is added, compacted, and read again.

Names in JSON that differ from ours are those of the first version of the format.
"""

from typing import Final, final

import msgspec

from roquet.client.queue_ref import QueueRef

ENTRY_VERSION: Final = 1
# Of entries with `reprocessed`, which earlier versions of Roquet would not notice.
REPROCESSED_VERSION: Final = 2


@final
class QueueIncarnation(msgspec.Struct, frozen=True, array_like=True):
    """A queue as its broker described it: its first offset, and when that message was stored.

    A queue that was deleted and created again has a younger first message, at an offset that is not
    higher.
    """

    first_offset: int | None = None
    born_ms: int | None = None

    def is_replaced_by(self, now: "QueueIncarnation") -> bool:
        """Whether `now` describes a queue that was created after this one was deleted."""
        if self.born_ms is None or now.born_ms is None:
            return False
        if self.first_offset is None or now.first_offset is None:
            return False
        return now.born_ms > self.born_ms and now.first_offset <= self.first_offset


@final
class FileBounds(msgspec.Struct, frozen=True, array_like=True):
    """The least and the greatest value of columns, for readers that skip files."""

    queue_id: tuple[int, int]
    offset: tuple[int, int]
    stored_us: tuple[int, int]


@final
class LakeFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of messages: its path for readers, and the one where it was staged.

    Files of tables are written where readers find them: both are the same.
    """

    path: str
    staged: str
    rows: int
    bytes: int
    bounds: FileBounds | None = None


@final
class LakePiece(msgspec.Struct, frozen=True, omit_defaults=True):
    """The messages of a queue from `start` to before `end`: those of one hour, in one file.

    Offsets without a message (a filter dropped it) belong to a piece, too; a piece without any
    message has no file, and its path is empty. `generation` counts how often the topic was deleted
    and created again. Messages that could not be decoded are in the file `quarantined`, and not
    among `rows`; a piece with `unknown_schemas` is staged again with them, not published.
    """

    topic: str
    broker: str
    queue: int
    start: int
    end: int
    rows: int
    bytes: int
    path: str
    staged: str
    generation: int = 0
    incarnation: QueueIncarnation = msgspec.field(default=QueueIncarnation(), name="birth")
    quarantined: LakeFile | None = None
    bounds: FileBounds | None = None
    unknown_schemas: list[str] = []

    @property
    def queue_ref(self) -> QueueRef:
        return QueueRef(self.topic, self.broker, self.queue)

    @property
    def file(self) -> LakeFile | None:
        if not self.path:
            return None
        return LakeFile(self.path, self.staged, self.rows, self.bytes, self.bounds)


@final
class Compaction(msgspec.Struct, frozen=True):
    """One file that replaces others of the same directory."""

    removed: list[str]
    file: LakeFile


@final
class Reprocessed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file of the quarantine, `path`, that was read again, by another schema.

    `good` has the rows that could be decoded, and `bad` the others. Of a table, `moving` has the
    rows of `good` as they were in the quarantine.
    """

    path: str
    good: LakeFile
    bad: LakeFile | None = None
    moving: LakeFile | None = None


@final
class LakeEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a lake. `number` counts from 1, as in the name of its file.

    Compaction changes neither the messages nor the offsets that the lake has. `body_schema` is what
    bodies of added messages were decoded with. `reprocessed` rows leave the quarantine.
    """

    version: int
    number: int
    published_ms: int
    added: list[LakePiece] = []
    compacted: list[Compaction] = msgspec.field(default_factory=list, name="joined")
    body_schema: str | None = msgspec.field(default=None, name="json_schema")
    reprocessed: list[Reprocessed] = []
