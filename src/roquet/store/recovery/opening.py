"""Opens a store: the order in which its parts are loaded and recovered."""

from typing import Final

import msgspec
from msgspec.structs import replace

from roquet.disk import Disk
from roquet.state_file import BadStateFile
from roquet.store.checkpoint import Checkpoint, CheckpointFile, load_noted_end
from roquet.store.checksum_notes import ChecksumNotes, still_true
from roquet.store.commit_log import CommitLog
from roquet.store.config import StoreConfig
from roquet.store.keys.key_index import KeyIndex
from roquet.store.log_scan import NO_END
from roquet.store.maintenance.queue_deletion import DeletedQueues
from roquet.store.queues import ConsumeQueues
from roquet.store.recovery.cut_backup import back_up_cut
from roquet.store.recovery.recovery import Cutting, LastOwner, RecoveryReport, recover
from roquet.store.store_lock import StoreLock

# Opening waits at most this long for keys to be indexed, some millions a second.
_FILING_S_MAX: Final = 10.0


class StoreParts(msgspec.Struct, frozen=True, kw_only=True):
    config: StoreConfig
    disk: Disk
    lock: StoreLock
    log: CommitLog
    queues: ConsumeQueues
    deletions: DeletedQueues
    checkpoints: CheckpointFile
    checksum_notes: ChecksumNotes
    index: KeyIndex | None


def recover_store(parts: StoreParts, cut_end: int) -> RecoveryReport:
    """What the log has after `cut_end`, where a record ends, is cut off and backed up.

    Raises BadStoreDirectory, BadStateFile, StateNotSaved, DiskFull and OSError.
    """
    lock, log, checkpoints = parts.lock, parts.log, parts.checkpoints
    was_clean = lock.was_clean
    lock.mark_open()
    parts.deletions.load()
    checkpoint = checkpoints.load()
    log.load()
    has_revived = False
    if cut_end < log.files_end:
        # The master that continues the log did not delete them.
        has_revived = parts.deletions.revive(cut_end)
        # What replaces the cut part may be older, and is not synced although that was.
        checkpoints.save(Checkpoint(durable_end=min(checkpoint.durable_end, cut_end)))
    lost_notes = _load_checksum_notes(parts)
    report = recover(
        log,
        parts.queues,
        parts.deletions,
        # Another owner may have cut the log and written something else there.
        LastOwner(
            was_clean,
            lock.was_ours,
            checkpoint,
            checkpoint.durable_end if lock.was_ours else 0,
        ),
        delay_levels_ms=parts.config.delay_levels_ms,
        distrust_queues=lambda: checkpoints.save(replace(checkpoints.value, queue_timestamp=0)),
        cutting=Cutting(
            lambda end: back_up_cut(
                parts.disk, log, parts.config.layout, end, is_divergent=end == cut_end
            ),
            cut_end,
            has_revived=has_revived,
        ),
    )
    # Before the checkpoint records that our own records extend up to here.
    parts.checksum_notes.go_on(log, with_checksums=parts.config.write_checksums)
    lock.mark_ours()
    if checkpoint.durable_end > log.end:
        # Files are missing. What is written there from now on is not synced although they were.
        checkpoints.save(replace(checkpoints.value, durable_end=log.end))
    checkpoints.note_durable(log.end)
    log.resume()
    parts.deletions.limit(log.end)
    if parts.index is not None:
        parts.index.load(
            log,
            was_clean=was_clean,
            index_timestamp=checkpoint.index_timestamp,
            distrust=lambda timestamp: _distrust_index(checkpoints, timestamp),
        )
        parts.index.file_backlog(log, _FILING_S_MAX)
    return replace(report, lost_notes=lost_notes)


def _load_checksum_notes(parts: StoreParts) -> str:
    """Why they cannot be read; empty if they can. Raises StateNotSaved."""
    notes, log = parts.checksum_notes, parts.log
    is_ours = parts.lock.was_ours
    noted_end = NO_END
    if not is_ours:
        noted_end = load_noted_end(parts.disk, parts.config.layout.checkpoint)
    try:
        noted = notes.load(noted_end)
    except BadStateFile as error:
        notes.forget()
        return str(error)
    log.expect_checksums(noted if is_ours else still_true(noted, log))
    return ""


def _distrust_index(checkpoints: CheckpointFile, timestamp: int) -> None:
    # Not what was loaded before: the queue timestamp may have been reset since.
    checkpoint = checkpoints.value
    if timestamp < checkpoint.index_timestamp:
        checkpoints.save(replace(checkpoint, index_timestamp=timestamp))
