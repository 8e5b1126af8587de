"""Commits an entry of the log: files get their names, compacted files replace others.

All of it is idempotent, from wherever a crash interrupted it.

A directory whose files were compacted is built next to the lake, of links, and exchanged with the
old one in a single step. A reader that lists it sees the old files or the new ones, never some of
both; one that has listed it before and opens a file later gets an error that it is gone.
"""

import os
import shutil
from collections.abc import Collection, Iterable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

from roquet.pipeline.durable_files import (
    exchange_directories,
    make_directories,
    sync_directories,
    sync_directory,
)
from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.entries import Compaction, LakeEntry, LakeFile
from roquet.pipeline.lake.files import CONTROL_DIRECTORY, directory_of, quarantine_of

_REPLACING: Final = "replacing"


def move_pieces(lake: Path, entry: LakeEntry) -> None:
    """Rename staged files of pieces; some may have their names already. Raises BadLake."""
    files = [file for piece in entry.added if (file := piece.file) is not None]
    _move(lake, files, entry)
    quarantined = [piece.quarantined for piece in entry.added if piece.quarantined is not None]
    _move(quarantine_of(lake), quarantined, entry)


def exchange_compacted(lake: Path, entry: LakeEntry) -> None:
    """Replace the directories in which files were compacted. Raises BadLake."""
    for directory, compactions in _by_directory(entry.compacted):
        removed = {Path(path).name for compaction in compactions for path in compaction.removed}
        _replace(lake, directory, removed, [compaction.file for compaction in compactions], entry)


def move_compacted(lake: Path, entry: LakeEntry) -> None:
    """Put compacted files beside those they replace: for readers that go by a list."""
    _move(lake, [compaction.file for compaction in entry.compacted], entry)


def remove_replaced(lake: Path) -> None:
    for each in (_beside(lake), _inside(lake)):
        shutil.rmtree(each, ignore_errors=True)


def _move(root: Path, files: Iterable[LakeFile], entry: LakeEntry) -> None:
    moved: set[Path] = set()
    for file in files:
        target = root / file.path
        make_directories(target.parent)
        try:
            (root / file.staged).replace(target)
        except FileNotFoundError:
            if not target.exists():
                raise _gone(root, file, entry) from None
        moved.add(target.parent)
    sync_directories(moved)


def _replace(
    lake: Path, directory: str, removed: set[str], files: Sequence[LakeFile], entry: LakeEntry
) -> None:
    target = lake / directory
    names = {each.name for each in target.iterdir()}
    if removed & names or not {Path(file.path).name for file in files} <= names:
        replacement = _replacing_directory(lake) / f"{entry.number}" / directory
        _make_replacement(lake, replacement, target, names - removed)
        for file in files:
            try:
                (replacement / Path(file.path).name).hardlink_to(lake / file.staged)
            except FileNotFoundError:
                raise _gone(lake, file, entry) from None
        sync_directory(replacement)
        exchange_directories(replacement, target)
        sync_directories((replacement.parent, target.parent))
    remove_replaced(lake)


def _make_replacement(
    lake: Path, replacement: Path, target: Path, kept_names: Collection[str]
) -> None:
    remove_replaced(lake)
    replacement.mkdir(parents=True)
    shutil.copystat(target, replacement)
    for name in kept_names:
        (replacement / name).hardlink_to(target / name)


def _replacing_directory(lake: Path) -> Path:
    """Not in the lake, if possible: some readers look for Parquet in every directory."""
    parent = lake.parent
    is_same_device = parent.stat().st_dev == lake.stat().st_dev and os.access(
        parent, os.W_OK | os.X_OK
    )
    return _beside(lake) if is_same_device else _inside(lake)


def _beside(lake: Path) -> Path:
    return lake.with_name(f".{lake.name}.{_REPLACING}")


def _inside(lake: Path) -> Path:
    return lake / CONTROL_DIRECTORY / _REPLACING


def _by_directory(compactions: Iterable[Compaction]) -> list[tuple[str, list[Compaction]]]:
    def directory(compaction: Compaction) -> str:
        return directory_of(compaction.file.path)

    return [
        (key, list(group)) for key, group in groupby(sorted(compactions, key=directory), directory)
    ]


def _gone(root: Path, file: LakeFile, entry: LakeEntry) -> BadLake:
    return BadLake(f"{file.path} is missing: entry {entry.number} of the lake {root} lists it")
