"""How many slots and entries an index file has, found out from the file itself.

Its size does not say: one entry takes as much space as five slots. But only one division
makes the first and the last entry those that the header names, and the last one the newest
of its slot.
"""

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

from roquet.store.files.mapped_file import MappedFile
from roquet.store.keys.index_file import IndexFile, index_file_size

# Entries per slot, unless somebody has set it up otherwise.
_USUAL_RATIO: Final = 4
# Trying all shapes of a larger file would take long.
_TRIED_SIZE_MAX: Final = 1 << 25

_EMPTY_SIZE: Final = index_file_size(0, 0)
_SLOT_SIZE: Final = index_file_size(1, 0) - _EMPTY_SIZE
_ENTRY_SIZE: Final = index_file_size(0, 1) - _EMPTY_SIZE


class IndexShape(NamedTuple):
    slot_count: int
    entry_count: int


def shape_of(file: MappedFile) -> IndexShape | None:
    """None if there is no telling: the file is empty, damaged, or large and unusual."""
    shapes = _shapes(file.size)
    return next((each for each in shapes if IndexFile(file, *each).has_its_shape), None)


def _shapes(file_size: int) -> Iterator[IndexShape]:
    """Shapes that make a file of this size, the usual one first."""
    size = file_size - _EMPTY_SIZE
    usual = size // (_SLOT_SIZE + _USUAL_RATIO * _ENTRY_SIZE)
    others = range(1, size // _SLOT_SIZE) if size <= _TRIED_SIZE_MAX else ()
    for slot_count in chain((usual,), others):
        entry_count, rest = divmod(size - slot_count * _SLOT_SIZE, _ENTRY_SIZE)
        if slot_count > 0 and rest == 0:
            yield IndexShape(slot_count, entry_count)
