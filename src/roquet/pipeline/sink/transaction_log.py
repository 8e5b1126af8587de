"""How the transactions of batches ended: a file for each batch, created once.

    DIRECTORY/WRITE/12.json            batch 12 is committed: the tasks that count, their messages
    DIRECTORY/WRITE/12.RUN.aborted     what this run prepared for batch 12 is rolled back

WRITE is the id of the write, for a stream that of its query. The file of a batch appears whole or
not at all, and a second writer finds the decision of the first. Delivered messages are removed from
the file; the tasks stay, because brokers may still check messages of other attempts. Files of a
stream are removed when no broker checks them any more and Spark cannot repeat their batches; those
of a batch write with a `writeId` stay, because it may be run again at any time.
"""

import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, final
from urllib.parse import quote, unquote

import msgspec

from roquet.client.hooks import TransactionState
from roquet.client.producer.transaction_producer import PreparedMessage
from roquet.pipeline.durable_files import create_once, make_directories, replace_file

# Batches that Spark can go back to: by default it keeps a hundred in a checkpoint.
BATCHES_KEPT: Final = 1_000
# Brokers drop undecided messages with the files they are in, after three days by default.
KEPT_S: Final = 14 * 24 * 3600
# How long a driver that has decided is assumed to be ending its messages; then it has ended.
ENDING_S: Final = 60.0
# Listing all files costs a little, so it is not done for each batch.
_PRUNED_EVERY: Final = 100
_FILE_NAME: Final = re.compile(r"(?P<batch>[0-9]+)\.(?:json|\w+\.aborted)")


class Mark(NamedTuple):
    """Which attempt of which task prepared a message: one of its properties."""

    write_id: str
    batch_id: int
    run_id: str
    token: str

    def __str__(self) -> str:
        return "/".join((quote(self.write_id, safe=""), str(self.batch_id), *self[2:]))


def parse_mark(text: str) -> Mark | None:
    """None if it is not a mark."""
    parts = text.split("/")
    if len(parts) != len(Mark._fields) or not parts[1].isdecimal():
        return None
    return Mark(unquote(parts[0]), int(parts[1]), parts[2], parts[3])


@final
class Decision(msgspec.Struct, frozen=True):
    """Messages of these tasks are committed, those of all others of the batch rolled back."""

    tokens: frozenset[str]
    # Those that may not be delivered yet.
    prepared: Sequence[PreparedMessage] = ()


def outcome(token: str, decision: Decision | None, *, is_aborted: bool) -> TransactionState:
    """The answer to a broker's check of a message."""
    if decision is not None:
        is_in = token in decision.tokens
        return TransactionState.COMMIT if is_in else TransactionState.ROLLBACK
    return TransactionState.ROLLBACK if is_aborted else TransactionState.UNKNOWN


@final
class TransactionLog:
    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    def decision(self, write_id: str, batch_id: int) -> Decision | None:
        """None while undecided."""
        try:
            data = self._path(write_id, batch_id).read_bytes()
        except FileNotFoundError:
            return None
        return msgspec.json.decode(data, type=Decision)

    def decide(self, write_id: str, batch_id: int, decision: Decision) -> Decision | None:
        """Records it. None, or the decision that was recorded before."""
        path = self._path(write_id, batch_id)
        make_directories(path.parent)
        try:
            create_once(path, msgspec.json.encode(decision))
        except FileExistsError:
            return self.decision(write_id, batch_id)
        return None

    def note_delivered(self, write_id: str, batch_id: int, decision: Decision) -> None:
        path = self._path(write_id, batch_id)
        replace_file(path, msgspec.json.encode(Decision(decision.tokens)))

    def abort(self, write_id: str, batch_id: int, run_id: str) -> None:
        path = self._aborted_path(write_id, batch_id, run_id)
        make_directories(path.parent)
        replace_file(path, b"")

    def prune(self, write_id: str, batch_id: int) -> None:
        """Remove files that a stream at this batch no longer needs; every hundredth call."""
        if batch_id % _PRUNED_EVERY:
            return
        oldest_s = time.time() - KEPT_S
        for path in list(self._path(write_id, 0).parent.iterdir()):
            found = _FILE_NAME.fullmatch(path.name)
            # Other names are drafts of a writer that was killed.
            is_past = found is None or int(found["batch"]) <= batch_id - BATCHES_KEPT
            if is_past and path.stat().st_mtime < oldest_s and not self._has_undelivered(path):
                path.unlink(missing_ok=True)

    def _has_undelivered(self, path: Path) -> bool:
        """Whether it has messages that may not be delivered yet."""
        if path.suffix != ".json":
            return False
        return bool(msgspec.json.decode(path.read_bytes(), type=Decision).prepared)

    def outcome_of(self, mark: Mark) -> TransactionState:
        is_aborted = self._aborted_path(mark.write_id, mark.batch_id, mark.run_id).exists()
        # Read last: it counts more.
        decision = self.decision(mark.write_id, mark.batch_id)
        return outcome(mark.token, decision, is_aborted=is_aborted)

    def is_being_ended(self, mark: Mark) -> bool:
        """Whether the driver that decided the batch may be ending its messages right now."""
        try:
            decided_s = self._path(mark.write_id, mark.batch_id).stat().st_mtime
        except FileNotFoundError:
            return False
        return time.time() - decided_s < ENDING_S

    def _path(self, write_id: str, batch_id: int) -> Path:
        return self._directory / quote(write_id, safe="") / f"{batch_id}.json"

    def _aborted_path(self, write_id: str, batch_id: int, run_id: str) -> Path:
        return self._path(write_id, batch_id).with_name(f"{batch_id}.{run_id}.aborted")
