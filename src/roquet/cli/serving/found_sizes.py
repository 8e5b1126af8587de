"""The sizes of the files of a store that is there: its next owner has to go on with them."""

from collections.abc import Iterator
from pathlib import Path


def found_sizes(root: Path) -> dict[str, str]:
    """As settings of a broker; none for files that are not there. Raises OSError."""
    patterns = {
        "mappedFileSizeCommitLog": "commitlog/*",
        "mappedFileSizeConsumeQueue": "consumequeue/*/*/*",
    }
    sizes = {key: next(_sizes(root, pattern), None) for key, pattern in patterns.items()}
    return {key: str(size) for key, size in sizes.items() if size is not None}


def _sizes(root: Path, pattern: str) -> Iterator[int]:
    for path in root.glob(pattern):
        # A crash of Apache's may leave a file without a size.
        if path.name.isdigit() and (size := path.stat().st_size):
            yield size
