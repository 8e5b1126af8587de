"""Processes that a process started, and those that they started."""

from collections.abc import Iterator
from pathlib import Path


def descendants(process_id: int) -> Iterator[int]:
    """Ids of those that live now."""
    parents = dict(_parents())
    for each in parents:
        above = parents.get(each)
        while above is not None:
            if above == process_id:
                yield each
                break
            above = parents.get(above)


def has_words(process_id: int, word: str) -> bool:
    """Whether its command line has the word in it."""
    try:
        return word in Path(f"/proc/{process_id}/cmdline").read_bytes().decode(errors="replace")
    except FileNotFoundError:
        return False


def _parents() -> Iterator[tuple[int, int]]:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # The name in parentheses may hold anything.
        yield int(path.parent.name), int(text.rpartition(")")[2].split()[1])
