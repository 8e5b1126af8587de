"""A lake that is a table, in a directory or in an object store.

The table is the log: one commit lists files and, with them, the ranges of offsets that they have.
Tasks write files to their final place, where readers find none that the table does not list; the
driver commits. A commit that was refused is decided by the table alone: if it still lacks the
ranges, it is tried again, else the plan is thrown away. So any number of writers may work on one
table, be killed, and be started again; what they leave behind are files that no table lists.

Messages that cannot be decoded are in a second table beside it, which has ranges of its own. It is
committed first: what it has and the table lacks is decoded again, and not added to it again.
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Final, NamedTuple, Protocol, Self, TypeVar, final

from pyarrow import fs

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.entries import (
    ENTRY_VERSION,
    Compaction,
    LakeEntry,
    LakeFile,
    LakePiece,
    QueueIncarnation,
)
from roquet.pipeline.lake.metadata import LakeSettings
from roquet.pipeline.lake.places import LakePlace, Storage
from roquet.pipeline.lake.schemas.evolution import check_schema
from roquet.pipeline.lake.staging import (
    LATEST_SUFFIX,
    QUARANTINE_SUFFIX,
    Staging,
    TableStaging,
)
from roquet.pipeline.lake.state import LakeState, LakeTotals, Missing
from roquet.pipeline.planning import QueueRange

_ATTEMPTS_MAX: Final = 20
_RETRY_S: Final = 0.05

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class CommitRefused(BadLake):
    """Another commit came first, and may contradict this one: read the table again."""


class Rewrite(NamedTuple):
    """Files instead of others, with other rows; `covered` are ranges that are in the table then.

    `marks` are further names and numbers of `table_offsets.py`.
    """

    removed: Sequence[str]
    added: Sequence[LakeFile]
    covered: Sequence[LakePiece] = ()
    body_schema: str | None = None
    marks: Mapping[str, int] = {}


class LakeTable(Protocol):
    """A table of one format. Commits are based on what `refresh` read last."""

    settings: LakeSettings

    def refresh(self) -> LakeState:
        """The ranges that the table has now, without its files. Raises BadLake."""

    def commit(self, pieces: Sequence[LakePiece], body_schema: str | None) -> int:
        """Add files and ranges in one step; the number of the commit.

        Raises CommitRefused and BadLake.
        """

    def replace(self, compactions: Sequence[Compaction]) -> int:
        """List compacted files instead of others. Raises CommitRefused and BadLake."""

    def rewrite(self, rewrite: Rewrite) -> int:
        """Refused after any other commit since `refresh`, even if nothing is rewritten.

        A table that does not exist is created. Raises CommitRefused and BadLake.
        """

    def files(self) -> list[LakeFile]:
        """As of the last `refresh`, with the bounds of their columns if the table has them."""

    def body_schema(self) -> str | None:
        """The columns of decoded bodies, in DDL."""

    def offsets(self) -> Mapping[str, int]:
        """As of the last `refresh`: the names and numbers of `table_offsets.py`."""

    def expire(self, age: timedelta) -> int:
        """Remove files that were compacted longer ago, in whole hours; how many.

        Raises CommitRefused and BadLake.
        """

    def remove_orphans(self, age: timedelta) -> int:
        """Remove older files that the table does not list, expired ones included; how many."""


def check_written(storage: Storage, files: Sequence[LakeFile]) -> None:
    """A commit is permanent: the files it lists must exist. Raises BadLake."""
    found = storage.filesystem.get_file_info([storage.path(file.path) for file in files])
    for file, info in zip(files, found, strict=True):
        if info.type is not fs.FileType.File or info.size != file.bytes:
            raise BadLake(
                f"{storage.url}/{file.path} is missing or incomplete: either executors do not see"
                " the directory of the driver, which all of them have to share, or another program"
                " changes files there"
            )


def until_accepted(place: LakePlace, commit: Callable[[], _T]) -> _T:
    """Commits again, by what the table has then, while others commit first. Raises BadLake."""
    for attempt in range(_ATTEMPTS_MAX):
        try:
            return commit()
        except CommitRefused as error:
            log.info("commit refused, reading the table again: %s", error)
            time.sleep(_RETRY_S * attempt)
    raise BadLake(
        f"{place}: {_ATTEMPTS_MAX} commits were refused, one after the other: too many"
        " writers commit to this table at once; run this job again"
    )


@final
class TableLake:
    """A lake as a writer has it; no lock is held, and other writers may work on it.

    `latest`, if it has one, is a table of the newest row of each key, and made from its messages.
    """

    def __init__(
        self,
        place: LakePlace,
        table: LakeTable,
        quarantine: LakeTable,
        latest: LakeTable | None = None,
    ) -> None:
        self.place = place
        self.settings = table.settings
        self.table = table
        self.quarantine = quarantine
        self.latest = latest
        self.state = table.refresh()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    @property
    def staging(self) -> Staging:
        return TableStaging(self.place)

    @property
    def latest_key(self) -> str | None:
        return None if self.latest is None else self.latest.settings.latest_by

    @property
    def tables(self) -> dict[str, LakeTable]:
        """By what they add to the name of the lake, in the order in which rows get into them."""
        found = {"": self.table, QUARANTINE_SUFFIX: self.quarantine}
        return found if self.latest is None else {**found, LATEST_SUFFIX: self.latest}

    def missing(
        self, ranges: Iterable[QueueRange], incarnations: Mapping[QueueRef, QueueIncarnation]
    ) -> Missing:
        """What the table lacks now. Raises BadLake."""
        self.state = self.table.refresh()
        missing = self.state.missing(ranges, incarnations)
        return missing._replace(wanted=self.quarantine.refresh().cut_where_held(missing.wanted))

    def publish(
        self,
        pieces: Sequence[LakePiece],
        body_schema: str | None = None,
        seen: str | None = None,
    ) -> LakeEntry | None:
        """Commit what the table lacks of the pieces; None if it lacks nothing.

        `seen` is the schema of bodies that the lake had when `body_schema` was chosen. Raises
        PlanOutdated if the lake has another one, or part of one of the pieces, and BadLake.
        """
        return until_accepted(self.place, lambda: self._publish(pieces, body_schema, seen))

    def compact(self, compactions: Sequence[Compaction]) -> LakeEntry:
        """List compacted files instead of others. Raises BadLake."""
        return until_accepted(self.place, lambda: self._compact(compactions))

    def files(self) -> list[LakeFile]:
        self.state = self.table.refresh()
        return self.table.files()

    def expire(self, age: timedelta) -> int:
        """Remove files that only older versions list; how many. Raises BadLake."""
        return sum(
            until_accepted(self.place, partial(each.expire, age)) for each in self.tables.values()
        )

    def remove_orphans(self, age: timedelta) -> int:
        """Remove what killed writers left behind; how many files. Raises BadLake.

        A running writer has files that are not listed yet: they must be younger.
        """
        for each in self.tables.values():
            each.refresh()
        return sum(each.remove_orphans(age) for each in self.tables.values())

    def quarantined_files(self) -> list[LakeFile]:
        self.quarantine.refresh()
        return self.quarantine.files()

    def totals(self) -> LakeTotals:
        files = self.files()
        quarantined = sum(each.rows for each in self.quarantined_files())
        return LakeTotals(sum(each.rows for each in files), len(files), quarantined)

    def _publish(
        self, pieces: Sequence[LakePiece], body_schema: str | None, seen: str | None
    ) -> LakeEntry | None:
        self.state = self.table.refresh()
        check_schema(self.state.body_schema, body_schema, seen)
        lacking = self.state.lacking(pieces)
        if not lacking:
            return None
        self._set_apart(lacking)
        return _entry(self.table.commit(lacking, body_schema), added=lacking)

    def _compact(self, compactions: Sequence[Compaction]) -> LakeEntry:
        self.table.refresh()
        listed = {file.path for file in self.table.files()}
        possible = [each for each in compactions if listed.issuperset(each.removed)]
        if not possible:
            return _entry(0)
        return _entry(self.table.replace(possible), compacted=possible)

    def _set_apart(self, pieces: Sequence[LakePiece]) -> None:
        """Commits the quarantine of these pieces, unless an interrupted attempt has done so."""
        if not any(each.quarantined for each in pieces):
            return
        lacking = self.quarantine.refresh().lacking(pieces)
        set_apart = [_quarantined(each) for each in lacking if each.quarantined is not None]
        if set_apart:
            self.quarantine.commit(set_apart, None)


def _entry(
    number: int, added: Sequence[LakePiece] = (), compacted: Sequence[Compaction] = ()
) -> LakeEntry:
    return LakeEntry(
        ENTRY_VERSION,
        number,
        time.time_ns() // 1_000_000,
        added=list(added),
        compacted=list(compacted),
    )


def _quarantined(piece: LakePiece) -> LakePiece:
    """The piece as the quarantine has it."""
    file = piece.quarantined
    assert file is not None
    return LakePiece(
        topic=piece.topic,
        broker=piece.broker,
        queue=piece.queue,
        start=piece.start,
        end=piece.end,
        rows=file.rows,
        bytes=file.bytes,
        path=file.path,
        staged=file.staged,
        generation=piece.generation,
        bounds=file.bounds,
    )
