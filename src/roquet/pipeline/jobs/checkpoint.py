"""Which lake a checkpoint belongs to.

A checkpoint says how far a query is. Together with another lake, or with a new one in the place of
a lake that was deleted, it would leave out everything before: so it is marked.
"""

from pathlib import Path
from typing import Final

from roquet.pipeline.errors import BadLake
from roquet.pipeline.lake.durable import create_whole, make_directories

# Spark leaves alone what it does not know.
_MARK: Final = "roquet-lake"
_SPARK_OFFSETS: Final = "offsets"


def bind_checkpoint(checkpoint: Path, lake: Path, lake_id: str) -> None:
    """Mark a new checkpoint, and compare the mark of one that is there. Raises BadLake."""
    try:
        marked = (checkpoint / _MARK).read_text()
    except FileNotFoundError:
        if (checkpoint / _SPARK_OFFSETS).exists():
            raise _another(checkpoint, lake) from None
        make_directories(checkpoint)
        create_whole(checkpoint / _MARK, lake_id.encode())
    else:
        if marked != lake_id:
            raise _another(checkpoint, lake)


def _another(checkpoint: Path, lake: Path) -> BadLake:
    return BadLake(
        f"the checkpoint {checkpoint} does not belong to the lake {lake}: name another directory,"
        " or remove the checkpoint (nothing is added to a lake twice)"
    )
