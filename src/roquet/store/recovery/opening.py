"""Opens a store: the order in which its parts are loaded and recovered.

Bytes that recovery cuts off the log are kept:

    cut/<physical offset>         what followed the last good record
    divergent/<physical offset>   what only a former master had, and no other replica

As a rule the former is what a power cut left of messages that were never acknowledged. Should they
ever be more, an operator can look.
"""

from itertools import count
from pathlib import Path

import msgspec
from msgspec.structs import replace

from roquet.disk import Disk, is_full, make_safe_directory
from roquet.state_file import BadStateFile
from roquet.store.checkpoint import Checkpoint, CheckpointFile, load_noted_end
from roquet.store.checksum_notes import ChecksumNotes, still_true
from roquet.store.commit_log import CommitLog
from roquet.store.config import StoreConfig
from roquet.store.errors import DiskFull
from roquet.store.files.layout import StoreLayout, file_name
from roquet.store.keys.key_index import KeyIndex
from roquet.store.log_scan import NO_END
from roquet.store.maintenance.queue_deletion import DeletedQueues
from roquet.store.queues import ConsumeQueues
from roquet.store.recovery.recovery import Cutting, LastOwner, RecoveryReport, recover
from roquet.store.store_lock import StoreLock


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


def back_up_cut(
    disk: Disk, log: CommitLog, layout: StoreLayout, end: int, *, is_divergent: bool
) -> Path | None:
    """Copy what is written after `end`; the path of the copy.

    None if the disk is full: a store that does not start would be worse. But divergent bytes are
    whole messages: raises DiskFull if they cannot be kept, or OSError.
    """
    directory = layout.divergent if is_divergent else layout.cut
    path = _copy(disk, log, directory, end)
    if path is None and is_divergent:
        raise DiskFull(f"no space in {directory} to back up what is cut off the log at {end}")
    return path


def _copy(disk: Disk, log: CommitLog, directory: Path, end: int) -> Path | None:
    """Zeros become holes. None if the disk is full. Raises OSError."""
    written_end = log.written_end(end)
    try:
        make_safe_directory(disk, directory)
        path = _new_path(disk, directory / file_name(end))
        descriptor = disk.create(path, written_end - end)
    except OSError as error:
        if not is_full(error):
            raise
        return None
    try:
        for physical_offset, data in log.written_between(end, written_end):
            disk.write(descriptor, physical_offset - end, data)
        disk.sync(descriptor)
    except OSError as error:
        # A part would be mistaken for all of it.
        disk.remove(path)
        if not is_full(error):
            raise
        return None
    finally:
        disk.close(descriptor)
    disk.sync_directory(directory)
    return path


def _new_path(disk: Disk, path: Path) -> Path:
    names = (
        path if number == 1 else path.with_name(f"{path.name}.{number}") for number in count(1)
    )
    return next(each for each in names if not disk.exists(each))
