"""Repairs a store: rebuilds queues and index from the log, and replaces the old ones.

    repair/consumequeue, repair/index   the new ones, until they are complete
    repair/old/                         the old ones, until they are removed

The log is only read. At every moment the old queues are in place, or the new ones, or none at all:
then the next owner of the directory rebuilds them from the log.
"""

from contextlib import closing
from pathlib import Path

from roquet.clock import Clock
from roquet.disk import Disk, make_safe_directory
from roquet.store.files.layout import StoreLayout, layout_of
from roquet.store.keys.key_index import KeyIndex
from roquet.store.offline.reader import StoreReader, find_store
from roquet.store.offline.rebuild import (
    OnRecords,
    Rebuilt,
    ignore,
    index_config_of,
    key_batches,
    loaded_deletions,
    queue_file_size_of,
    rebuild_queues,
)
from roquet.store.queues import ConsumeQueues
from roquet.store.store_lock import StoreLock


def repair(root: Path, clock: Clock, disk: Disk, on_records: OnRecords = ignore) -> Rebuilt:
    """Return when the new queues and the new index survive a power cut.

    Raises StoreInUse, BadStoreDirectory, BadStateFile or OSError.
    """
    layout = find_store(disk, root)
    lock = StoreLock(disk, layout)
    try:
        return _repair(layout, clock, disk, on_records)
    finally:
        lock.release()


def _repair(layout: StoreLayout, clock: Clock, disk: Disk, on_records: OnRecords) -> Rebuilt:
    workspace = layout_of(layout.root / "repair", layout.commit_log)
    # A repair that was interrupted may have left something.
    _remove_tree(disk, workspace.root)
    try:
        rebuilt = _build(layout, workspace, clock, disk, on_records)
    except OSError:
        # Most likely the disk is full, so nothing may be left.
        _remove_tree(disk, workspace.root)
        raise
    old = layout_of(workspace.root / "old")
    make_safe_directory(disk, old.root)
    _replace(disk, layout.queues, workspace.queues, old.queues)
    _replace(disk, layout.index, workspace.index, old.index)
    _remove_tree(disk, workspace.root)
    return rebuilt


def _build(
    layout: StoreLayout, workspace: StoreLayout, clock: Clock, disk: Disk, on_records: OnRecords
) -> Rebuilt:
    with StoreReader.open(layout.root, disk=disk) as reader:
        config = index_config_of(reader)
        with (
            closing(ConsumeQueues(disk, workspace, queue_file_size_of(disk, layout))) as queues,
            closing(KeyIndex(disk, workspace.index, clock, config)) as index,
        ):
            rebuilt = rebuild_queues(reader, queues, loaded_deletions(disk, layout), on_records)
            start, end = reader.log_start, reader.log_end
            batches = key_batches(
                reader, start, end, with_tags=config.with_tags, on_records=on_records
            )
            for batch in batches:
                index.put(batch)
            queues.sync()
            index.sync()
    return rebuilt


def _replace(disk: Disk, place: Path, new: Path, old: Path) -> None:
    if disk.exists(place):
        disk.rename(place, old)
    if disk.exists(new):
        disk.rename(new, place)
    disk.sync_directory(place.parent)


def _remove_tree(disk: Disk, directory: Path) -> None:
    for entry in disk.entries(directory):
        path = directory / entry.name
        if entry.is_directory:
            _remove_tree(disk, path)
        else:
            disk.remove(path)
    if disk.exists(directory):
        disk.remove_directory(directory)
