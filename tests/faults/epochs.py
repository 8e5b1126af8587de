"""Who acknowledged what, against whose epoch it was."""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from roquet.protocol.messages.message_id import parse_offset_id


class Acknowledging(NamedTuple):
    """A broker has acknowledged a message, and where it is in its log."""

    broker: str
    physical_offset: int
    body: bytes

    @classmethod
    def of(cls, offset_id: str, body: bytes) -> Self:
        place = parse_offset_id(offset_id)
        return cls(str(place.store_address), place.physical_offset, body)


class Epochs(NamedTuple):
    """What a broker remembers: its own name as an author, and who wrote from where on."""

    author: str
    starts: list[tuple[int, int, str]]  # epoch, physical offset, author

    def author_at(self, physical_offset: int) -> str | None:
        place = bisect_right([start for _, start, _ in self.starts], physical_offset)
        return self.starts[place - 1][2] if place else None


def read_epochs(store_directory: Path) -> Epochs:
    content: dict[str, Any] = json.loads((store_directory / "epochs.json").read_text())
    return Epochs(content["author"], [(each[0], each[1], each[2]) for each in content["starts"]])


def not_by_their_masters(
    acknowledgements: Sequence[Acknowledging], epochs: Mapping[str, Epochs]
) -> Iterator[str]:
    """E1, by the epochs of all brokers when everything has come to rest."""
    histories = {tuple(each.starts) for each in epochs.values()}
    if len(histories) > 1:
        yield f"E1: brokers remember different epochs: {sorted(histories)}"
    authors = {address: each.author for address, each in epochs.items()}
    known = next(iter(epochs.values()))
    for each in acknowledgements:
        author = known.author_at(each.physical_offset)
        if author != authors.get(each.broker):
            yield (
                f"E1: {each.body!r} was acknowledged by {each.broker} at {each.physical_offset}, "
                f"where {author} was master"
            )
