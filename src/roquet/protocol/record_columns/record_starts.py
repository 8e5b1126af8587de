"""Where records start: in a buffer that has nothing else, and in a slice of the log that starts
and ends anywhere, even inside a record.

A record names its place in the log, and its size leads to the next one. A copy of a record
inside a body names another place; but a body can be written to claim the right one, so claims
alone prove nothing. What proves it is the record around the body, which starts before it:

    |<- window, as long as the largest record ->|
    ------[R          ][R    ][R      [c]    ][R   |    ][R    ]----- R records, c claims to be one
                                                begin

In every window that is as long as the largest record there is, a record starts; so where all that
claims to be a record in a window leads to the same first start after `begin`, that is the true
one. Where claims contradict each other, the window before is searched, and so on to the anchor.
"""

from struct import Struct
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from roquet.protocol.errors import BadMessage
from roquet.protocol.messages.record import MAGIC_BLANK, MAGIC_V1, MAGIC_V2, ReadBuffer
from roquet.protocol.record_columns.arrays import Bytes, Positions, values_at
from roquet.protocol.record_columns.walking import CLAIM_SIZE, find_claims, walk_records

# No body, topic or properties, addresses of the smaller kind.
RECORD_SIZE_MIN: Final = 91
BLANK_SIZE_MIN: Final = 8
# Twice the body that brokers take by default, with any topic and properties.
RECORD_SIZE_MAX: Final = 8 * 1024 * 1024

_SIZE_AND_MAGIC: Final = Struct(">ii")


def find_record_starts(data: Bytes) -> Positions:
    """Raises BadMessage unless the buffer is made of whole records and blank filler."""
    starts, position = walk_records(data, 0, data.size)
    if position < data.size:
        raise BadMessage(_what_is_wrong(data, position))
    return np.frombuffer(starts, np.int64)


def check_record_starts(data: Bytes, starts: npt.ArrayLike) -> Positions:
    """Raises BadMessage unless records fit at `starts`, which ascend."""
    checked = np.ascontiguousarray(starts, np.int64)
    if not checked.size:
        return checked
    if checked.min() < 0 or checked.max() > data.size - RECORD_SIZE_MIN:
        raise BadMessage(f"a record start lies outside the buffer of {data.size} bytes")
    sizes = values_at(data, checked, ">i4").astype(np.int64)
    # The bytes from each start to the next one or to the end.
    rooms = np.diff(checked, append=data.size)
    wrong = np.flatnonzero(sizes > rooms)
    if wrong.size:
        first = wrong[0]
        raise BadMessage(f"record of {sizes[first]} bytes does not fit at byte {checked[first]}")
    return checked


def _what_is_wrong(data: Bytes, position: int) -> str:
    room = data.size - position
    if room < BLANK_SIZE_MIN:
        return f"{room} bytes follow the last record"
    size, magic = _SIZE_AND_MAGIC.unpack_from(data.data, position)
    if magic not in (MAGIC_V1, MAGIC_V2, MAGIC_BLANK):
        return f"no record starts at byte {position}"
    return f"record of {size} bytes does not fit at byte {position}"


class FoundRecords(NamedTuple):
    starts: Positions  # in the data, as `decode_records` takes them
    # The physical offset up to which records are known. Before `end`, it is where no whole record
    # starts: the data ends inside of it, or it is damaged. What follows damage is found by
    # another call with a `begin` past it.
    stop: int


def find_records(
    data: ReadBuffer,
    *,
    base: int,
    begin: int,
    end: int,
    anchor: int | None = None,
    record_size_max: int = RECORD_SIZE_MAX,
) -> FoundRecords:
    """The records whose first byte lies between the physical offsets `begin` and `end`.

    `base` is the physical offset of byte 0 of `data`, which should hold the last record whole.
    `anchor` is one at or before `begin` where a record is known to start: the first byte of a log
    file, or what an entry of a queue leads to. It is walked from only where nothing else helps.

    With an anchor the answer is exact, whatever bodies hold, if the log is undamaged and no record
    is larger than `record_size_max`. Without one it is exact, too, where the data reaches back to
    a window without contradiction, and only a body that was written for its very place in
    the log contradicts. Otherwise, and after damage, the longest valid chain is taken.
    """
    buffer = np.frombuffer(data, np.uint8)
    log = _Log(buffer, base, record_size_max)
    first, last = begin - base, end - base
    if not 0 <= first <= last or not (anchor is None or base <= anchor <= begin):
        raise ValueError(f"slice {begin} to {end} with anchor {anchor} does not follow {base}")
    start = log.first_start(first, None if anchor is None else anchor - base)
    if start is None:
        # This is how far it was possible to look.
        start = max(first, min(last, buffer.size - CLAIM_SIZE + 1))
    starts, stop = walk_records(buffer, start, last, base)
    return FoundRecords(np.frombuffer(starts, np.int64), base + stop)


class _Log(NamedTuple):
    data: Bytes
    base: int
    record_size_max: int

    def first_start(self, first: int, anchor: int | None) -> int | None:
        """Where the first record at or after `first` starts, or None."""
        if anchor is not None and first - anchor <= self.record_size_max:
            start = self._walked_to(first, anchor)
        else:
            start = self._agreed_start(first, anchor)
        if start is None:
            start = self._walked_to(first, self._believed_claim(first - self.record_size_max))
        return self._believed_claim(first) if start is None else start

    def _agreed_start(self, first: int, anchor: int | None) -> int | None:
        """The start that all claims of a window lead to, if there is a window of such claims."""
        low = first - self.record_size_max
        while low >= (anchor or 0):
            starts = self._starts_after(low, first)
            led_to = {
                start for claim, start in starts.items() if claim < low + self.record_size_max
            }
            if len(led_to) == 1:
                return led_to.pop()
            if not led_to:
                # No record in as many bytes as the largest one has: there is damage.
                return None
            low -= self.record_size_max
        return self._walked_to(first, anchor)

    def _walked_to(self, first: int, start: int | None) -> int | None:
        """The first start at or after `first` on the way from `start`, if that leads there."""
        if start is None:
            return None
        stop = max(start, walk_records(self.data, start, first, self.base)[1])
        return stop if stop >= first else None

    def _believed_claim(self, low: int) -> int | None:
        """The claim from `low` on whose chain holds longest, the earliest of several such.

        A copy inside a body that is cut off leads nowhere: after its body comes a topic.
        """
        low = max(0, low)
        while low < self.data.size and not self._claims(low, low + self.record_size_max).size:
            low += self.record_size_max
        claims = self._claims(low, low + 2 * self.record_size_max)
        if not claims.size:
            return None
        claims = claims[claims <= claims[0] + self.record_size_max]
        horizon = min(self.data.size, int(claims[0]) + 2 * self.record_size_max)
        reaches = self._reaches(claims, horizon)
        positions: list[int] = claims.tolist()
        return max(positions, key=reaches.__getitem__)

    def _starts_after(self, low: int, first: int) -> dict[int, int]:
        """For each claim from `low` on the start at or after `first` that it leads to, if any."""
        claims = self._claims(low, first)
        if not claims.size:
            return {}
        ends = claims + values_at(self.data, claims, ">i4")
        if ends[-1] >= first and (ends[:-1] == claims[1:]).all():
            # The common case: a single chain.
            return dict.fromkeys(claims.tolist(), int(ends[-1]))
        starts: dict[int, int] = {}
        for claim, end in zip(reversed(claims.tolist()), reversed(ends.tolist()), strict=True):
            end = self._past_blank(end)
            if end >= first:
                starts[claim] = end
            elif end in starts:
                starts[claim] = starts[end]
        return starts

    def _reaches(self, claims: Positions, horizon: int) -> dict[int, int]:
        """How far the chain of each claim holds, or that it holds to the horizon."""
        reaches: dict[int, int] = {}
        ends = claims + values_at(self.data, claims, ">i4")
        for claim, end in zip(reversed(claims.tolist()), reversed(ends.tolist()), strict=True):
            if end in reaches:
                reaches[claim] = reaches[end]
            else:
                starts, stop = walk_records(self.data, claim, horizon, self.base)
                if self._is_cut_off(stop):
                    stop = horizon
                # The members of one chain come to the same end.
                members = (claim, *np.frombuffer(starts, np.int64).tolist())
                reaches.update(dict.fromkeys(members, min(stop, horizon)))
        return reaches

    def _is_cut_off(self, position: int) -> bool:
        """Whether something claims to be a record there that extends past the data."""
        claims = self._claims(position, position + 1)
        if not claims.size:
            return False
        size = int(values_at(self.data, claims, ">i4")[0])
        return self.data.size - position < size <= self.record_size_max

    def _claims(self, begin: int, end: int) -> Positions:
        return np.frombuffer(find_claims(self.data, begin, end, self.base), np.int64)

    def _past_blank(self, position: int) -> int:
        """The end of the blank filler that starts there, if any."""
        if position + _SIZE_AND_MAGIC.size > self.data.size:
            return position
        size, magic = _SIZE_AND_MAGIC.unpack_from(self.data.data, position)
        return position + max(size, 0) if magic == MAGIC_BLANK else position
