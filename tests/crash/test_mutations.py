"""Bugs put in on purpose: each has to be found by the checks of this directory.

A check that finds nothing may be blind. Here our own code is patched, and nowhere else.
"""

from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest

from roquet.disk import make_safe_directory
from roquet.protocol.messages import record
from roquet.state_file import StateFile
from roquet.store import log_scan
from roquet.store.checkpoint import Checkpoint
from roquet.store.commit_log import CommitLog
from roquet.store.config import FlushMode
from roquet.store.consume_queue import ENTRY_SIZE, ConsumeQueue
from roquet.store.errors import StoreError
from roquet.store.files.mapped_file import MappedFile
from roquet.store.flushing import Flusher
from roquet.store.message_store import MessageStore
from tests.support.failed_sync import after_failed_sync
from tests.support.faulty_disk import FaultyDisk
from tests.support.flipped_bytes import after_flip, original
from tests.support.power_cut import PowerCuts
from tests.support.state_cuts import after_state_cuts

SEEDS = range(20)

Experiment = Callable[[Path, int], list[str]]


class Mutation(NamedTuple):
    bug: str
    put_in: Callable[[pytest.MonkeyPatch], None]
    experiment: Experiment


# --- experiments ---


def sync_cuts(directory: Path, seed: int) -> list[str]:
    return PowerCuts(directory, FlushMode.SYNC, seed, 20).run()


def async_cuts(directory: Path, seed: int) -> list[str]:
    return PowerCuts(directory, FlushMode.ASYNC, seed, 20).run()


def failed_sync(directory: Path, seed: int) -> list[str]:
    return after_failed_sync(directory, FlushMode.SYNC, seed, reopens=False)


def failed_sync_and_reopening(directory: Path, seed: int) -> list[str]:
    return after_failed_sync(directory, FlushMode.SYNC, seed, reopens=True)


def flipped_bytes(_directory: Path, seed: int) -> list[str]:
    """Of the first record and of one in the last file."""
    store = original(is_clean=True)
    log = [flip for flip in store.flips(0xFF) if flip.kind == "commitlog"]
    return after_flip(store, log[seed]) + after_flip(store, log[-1000 + seed])


# --- bugs ---


def skip_the_sync(patch: pytest.MonkeyPatch) -> None:
    def sync(self: CommitLog) -> int:
        self.synced_end = self.end
        return self.end

    patch.setattr(CommitLog, "sync", sync)


def acknowledge_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    def sync_log(self: Flusher) -> None:
        self._is_wanted.clear()
        self._listener.flushed(self._log.end)
        self._log.sync()

    patch.setattr(Flusher, "_sync_log", sync_log)


def read_the_end_after_the_sync(patch: pytest.MonkeyPatch) -> None:
    def sync(self: CommitLog) -> int:
        self._run.sync(self.synced_end, self.end)
        self.synced_end = self.end
        return self.end

    patch.setattr(CommitLog, "sync", sync)


def never_flush_the_log(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Flusher, "_is_log_due", lambda _self, _now: False)


def show_what_is_not_safe(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MessageStore, "_max_offset", lambda _self, queue: queue.max_offset)


def reuse_an_offset(patch: pytest.MonkeyPatch) -> None:
    append = ConsumeQueue.append
    numbers = count(1)

    def forgetful(self: ConsumeQueue, physical_offset: int, size: int, tags_code: int) -> None:
        append(self, physical_offset, size, tags_code)
        if next(numbers) % 20 == 0:
            self.position -= ENTRY_SIZE
            self.max_offset -= 1

    patch.setattr(ConsumeQueue, "append", forgetful)


def swallow_errors_of_the_disk(patch: pytest.MonkeyPatch) -> None:
    def round_(_self: Flusher, sync: Callable[[], None]) -> None:
        with suppress(OSError):
            sync()

    patch.setattr(Flusher, "_round", round_)


def try_a_failed_sync_again(patch: pytest.MonkeyPatch) -> None:
    def round_(_self: Flusher, sync: Callable[[], None]) -> None:
        try:
            sync()
        except OSError:
            sync()

    patch.setattr(Flusher, "_round", round_)


def believe_in_pages_that_look_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(CommitLog, "write_again", lambda _self, _start: None)


def write_the_checkpoint_before_the_sync(patch: pytest.MonkeyPatch) -> None:
    sync_caches = Flusher._sync_caches

    def hasty(self: Flusher) -> None:
        now = self._log.last_store_timestamp
        self._checkpoints.save(Checkpoint(now, now, now, self._log.end))
        sync_caches(self)

    patch.setattr(Flusher, "_sync_caches", hasty)


def sync_no_directory(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(FaultyDisk, "sync_directory", lambda _self, _path: None)


def leave_the_tail_of_a_cut(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MappedFile, "zero_from", lambda _self, _position: None)


def believe_the_checksum_of_the_body(patch: pytest.MonkeyPatch) -> None:
    # Every record counts as one of a rare kind, because those are checked by what can be changed.
    patch.setattr(log_scan, "scan_heads", lambda _, _base, position, *_rest: ([], position, None))
    patch.setattr(
        log_scan,
        "scan_runs",
        lambda _, _base, position, *_rest: (0, 0, 0, [], [], position, None),
    )
    patch.setattr(record, "_CHECKSUM_MARK", b"never there")
    patch.setattr(log_scan, "_has_lost_checksum", lambda *_: False)


def write_state_in_place(patch: pytest.MonkeyPatch) -> None:
    def save(self: StateFile, content: bytes) -> None:
        make_safe_directory(self._disk, self._path.parent)
        descriptor = self._disk.create(self._path, 0)
        self._disk.write(descriptor, 0, content)
        self._disk.sync(descriptor)
        self._disk.close(descriptor)

    patch.setattr(StateFile, "_save", save)


MUTATIONS = (
    Mutation("skip the sync", skip_the_sync, sync_cuts),
    Mutation("acknowledge before the sync", acknowledge_before_the_sync, sync_cuts),
    Mutation("read the end after the sync", read_the_end_after_the_sync, sync_cuts),
    Mutation("show what is not safe", show_what_is_not_safe, sync_cuts),
    Mutation("reuse an offset", reuse_an_offset, sync_cuts),
    Mutation("sync no directory", sync_no_directory, sync_cuts),
    Mutation(
        "write the checkpoint before the sync", write_the_checkpoint_before_the_sync, async_cuts
    ),
    Mutation("leave the tail of a cut", leave_the_tail_of_a_cut, sync_cuts),
    Mutation("never flush the log", never_flush_the_log, async_cuts),
    Mutation("swallow errors of the disk", swallow_errors_of_the_disk, failed_sync),
    Mutation("try a failed sync again", try_a_failed_sync_again, failed_sync),
    Mutation(
        "believe in pages that look written",
        believe_in_pages_that_look_written,
        failed_sync_and_reopening,
    ),
    Mutation("believe the checksum of the body", believe_the_checksum_of_the_body, flipped_bytes),
    Mutation("write state in place", write_state_in_place, after_state_cuts),
)


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.bug)
def test_the_bug_is_found(
    mutation: Mutation, quick_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation.put_in(monkeypatch)
    assert any(violations(mutation.experiment, quick_path / str(seed), seed) for seed in SEEDS)


def violations(experiment: Experiment, directory: Path, seed: int) -> list[str]:
    """What the checks say, or the store itself, if the bug makes it refuse its directory."""
    directory.mkdir()
    try:
        return experiment(directory, seed)
    except StoreError as error:
        return [str(error)]
