"""How much of a mapped file is in the memory of this process, as the kernel counts it."""

from pathlib import Path


def resident_size(file: Path) -> int:
    """In bytes; 0 for a file that is not mapped."""
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        if line.endswith(str(file)):
            return 1024 * next(int(each.split()[1]) for each in lines if each.startswith("Rss:"))
    return 0
