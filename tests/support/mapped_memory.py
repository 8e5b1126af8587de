"""Mapped files as the kernel sees them: what of them is in memory, and how it is fetched."""

from collections.abc import Iterator
from pathlib import Path


def resident_size(file: Path) -> int:
    """In bytes; 0 for a file that is not mapped."""
    return sum(1024 * int(each) for each in _of_parts(file, "Rss"))


def parts_fetched_by_page(file: Path) -> list[bool]:
    """Of each part of its mapping, whether the kernel was advised not to read ahead in it."""
    return ["rr" in flags.split() for flags in _of_parts(file, "VmFlags")]


def _of_parts(file: Path, name: str) -> Iterator[str]:
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        if line.endswith(str(file)):
            found = next(each for each in lines if each.startswith(f"{name}:"))
            yield found.removeprefix(f"{name}:").removesuffix("kB")
