"""How far a stream has come, as Spark keeps it in its checkpoint.

    {"v": 1,
     "q": {"orders@broker-a@0": 123},             the offset that comes next
     "init": {"orders@broker-a@0": 7},            where the batch that ends here began, if not
                                                  where the one before it ended
     "first": {"orders@broker-a@0": 0},           the queue as it was seen last: its first offset,
     "born": {"orders@broker-a@0": 1700000000000}}   and when that message was stored

`init` is there for three reasons. Spark asks for the initial offset more than once, and again after
a restart when the first batch was not finished; what was said first cannot be known then, so the
first batch carries it. A queue that appears later begins at its first message. And a queue that
lost messages, or was made anew, goes on where it can.

A queue that was deleted and made again has a first message that is younger, at the same offset.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import PipelineError
from roquet.pipeline.planning import QueueRange
from roquet.pipeline.queue_tables import flat_table, read_flat_table

_VERSION: Final = 1


class StreamOffset(NamedTuple):
    positions: Mapping[QueueRef, int]
    begins: Mapping[QueueRef, int] = {}
    first_offsets: Mapping[QueueRef, int] = {}
    born_ms: Mapping[QueueRef, int] = {}

    def to_json(self) -> dict[str, Any]:
        """Keys in order: Spark takes two offsets for equal when their texts are."""
        return {
            "born": flat_table(self.born_ms),
            "first": flat_table(self.first_offsets),
            "init": flat_table(self.begins),
            "q": flat_table(self.positions),
            "v": _VERSION,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Raises PipelineError for what is no offset of ours."""
        if value.get("v") != _VERSION:
            raise PipelineError(
                f"the checkpoint has an offset of version {value.get('v')!r}, and this is version"
                f" {_VERSION}: it was written by another format or a newer Roquet"
            )
        try:
            return cls(
                read_flat_table(value["q"]),
                read_flat_table(value["init"]),
                read_flat_table(value.get("first", {})),
                read_flat_table(value.get("born", {})),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise PipelineError(f"the checkpoint has a damaged offset: {error}") from None


def ranges_between(start: StreamOffset, end: StreamOffset) -> list[QueueRange]:
    """What the batch from `start` to `end` reads."""
    if start == end:
        return []
    ranges = []
    for queue, position in end.positions.items():
        begin = end.begins.get(queue)
        if begin is None:
            begin = start.positions[queue]
        if begin < position:
            ranges.append(QueueRange(queue, begin, position))
    return ranges
