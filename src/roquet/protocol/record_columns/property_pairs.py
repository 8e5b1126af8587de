"""Names and values inside many property texts at once.

    name 0x01 value 0x02 name 0x01 value [0x02]

The texts of all rows lie joined in one array of bytes. Only texts of exactly this form
are handled here; rows with any other text are reported by IrregularRows.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roquet.protocol.record_columns.arrays import (
    Bytes,
    Positions,
    Slices,
    bytes_and_offsets,
    checked_utf8,
    gather,
    positions_where,
    refuse_rows,
    text_array,
    values_at,
)

_NAME_END: Final = 1
_MARK: Final = 2
_PADDING: Final = np.uint8(0xFF)

_WORD_SIZE: Final = 8
# Which of the 8 bytes at a name belong to it, by the size of the name.
_WORD_MASKS: Final = np.array([(1 << 8 * size) - 1 for size in range(_WORD_SIZE + 1)], np.uint64)
# Any odd number with well mixed bits will do.
_MIXER: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class PropertyPairs:
    """All pairs of all rows in their order, as positions in the joined texts."""

    texts: Bytes  # with padding, so that a word can be read at any name
    row_bounds: Positions  # row r has the pairs from row_bounds[r] up to row_bounds[r + 1]
    names: Slices
    values: Slices

    @property
    def row_count(self) -> int:
        return self.row_bounds.size - 1

    def last_named(self, name: bytes) -> Positions:
        """Of each row the last pair with this name of at most 8 bytes, or -1."""
        assert len(name) <= _WORD_SIZE
        is_like_name = self._name_heads == int.from_bytes(name, "little")
        pairs = np.flatnonzero(is_like_name & (self._name_sizes == len(name)))
        last_pairs = np.full(self.row_count, -1)
        # Where a row occurs more than once, the last assignment stays.
        last_pairs[self._rows[pairs]] = pairs
        return last_pairs

    def without_repeats(self) -> "PropertyPairs":
        """Of equal names in a row only the last. Raises IrregularRows.

        Names are told apart by their size, their first and their last 8 bytes. Where two
        are equal in these but too long to be known by them, the row is irregular.
        """
        prints = self._name_prints()
        in_order = np.sort(prints)
        if not (in_order[1:] == in_order[:-1]).any():
            return self
        order = np.argsort(prints, kind="stable")
        is_repeated = prints[order[1:]] == prints[order[:-1]]
        earlier, later = order[:-1][is_repeated], order[1:][is_repeated]
        is_sure = self._name_sizes[earlier] <= 2 * _WORD_SIZE
        for known in (self._rows, self._name_sizes, self._name_heads, self._name_tails):
            is_sure &= known[earlier] == known[later]
        refuse_rows(self._rows[earlier[~is_sure]], self.row_count)
        return self._without(earlier)

    def _without(self, pairs: Positions) -> "PropertyPairs":
        is_kept = np.ones(self.names.starts.size, np.bool_)
        is_kept[pairs] = False
        kept_before = np.concatenate(([0], np.cumsum(is_kept)))
        return PropertyPairs(
            self.texts,
            kept_before[self.row_bounds],
            self.names.only(is_kept),
            self.values.only(is_kept),
        )

    @cached_property
    def _rows(self) -> Positions:
        """The row of each pair."""
        return np.repeat(np.arange(self.row_count), np.diff(self.row_bounds))

    @cached_property
    def _name_sizes(self) -> Positions:
        return self.names.ends - self.names.starts

    @cached_property
    def _name_heads(self) -> npt.NDArray[np.uint64]:
        return self._words(self.names.starts)

    @cached_property
    def _name_tails(self) -> npt.NDArray[np.uint64]:
        return self._words(np.maximum(self.names.starts, self.names.ends - _WORD_SIZE))

    def _words(self, positions: Positions) -> npt.NDArray[np.uint64]:
        """The 8 bytes at each position, as far as they belong to the name there."""
        masks = _WORD_MASKS.take(self._name_sizes, mode="clip")
        words: npt.NDArray[np.uint64] = values_at(self.texts, positions, "<u8") & masks
        return words

    def _name_prints(self) -> npt.NDArray[np.uint64]:
        """Numbers that are equal for equal names in a row, and hardly ever otherwise."""
        prints = self._name_heads * _MIXER + self._name_tails
        prints = prints * _MIXER + self._name_sizes.astype(np.uint64)
        return prints * _MIXER + self._rows.astype(np.uint64)


def find_pairs(buffer: Bytes, texts: Slices) -> PropertyPairs:
    """The pairs in the property texts of many rows. Raises IrregularRows."""
    joined, offsets = _join_marked(buffer, texts)
    checked_utf8(text_array(joined, offsets))
    row_count = texts.starts.size
    separators = positions_where(joined, lambda block: block <= _MARK)
    bounds = np.searchsorted(separators, offsets)
    refuse_rows(np.flatnonzero(np.diff(bounds) % 2), row_count)

    # By now each row has as many marks as name ends, if it has nothing else.
    row_bounds = bounds // 2
    kinds = joined[separators]
    is_odd = (kinds[:-1:2] != _MARK) | (kinds[1::2] != _NAME_END)
    names = Slices(separators[:-1:2] + 1, separators[1::2])
    values = Slices(separators[1::2] + 1, separators[2::2])
    is_odd |= (names.starts >= names.ends) | (values.starts >= values.ends)
    odd_rows = np.searchsorted(row_bounds, np.flatnonzero(is_odd), "right") - 1
    refuse_rows(odd_rows, row_count)
    return PropertyPairs(joined, row_bounds, names, values)


def _join_marked(buffer: Bytes, texts: Slices) -> tuple[Bytes, Positions]:
    """The texts with a mark before each entry, one more behind them all, and padding.

    So that rows of 4.9 and 5.x look the same and every value ends at a mark.
    """
    is_filled = texts.ends > texts.starts
    is_closed = is_filled & (buffer[texts.ends - 1] == _MARK)
    # The mark takes the place of the byte before the text, the last one of its size.
    rows = Slices(texts.starts - is_filled, texts.ends - is_closed)
    rows_joined, offsets = bytes_and_offsets(gather(buffer, rows, pa.binary()))
    joined = np.full(rows_joined.size + 1 + _WORD_SIZE, _PADDING)
    joined[: rows_joined.size] = rows_joined
    joined[offsets[:-1][is_filled]] = _MARK
    joined[offsets[-1]] = _MARK
    return joined, offsets
