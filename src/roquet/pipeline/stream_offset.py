"""How far a stream has come, as Spark keeps it in its checkpoint.

    {"v": 1, "q": {"orders@broker-a@0": 123}, "init": {"orders@broker-a@0": 7}, "born": {...}}

Spark calls `initialOffset` more than once, and again after a restart when the first batch was not
finished; what it said first cannot be known then. So the start of the stream travels inside every
offset, and the first batch is planned from there. `born` has the store time of the oldest message
of each topic's queues when it was first seen: a topic that was deleted and made again shows by it.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Self

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import PipelineError
from roquet.pipeline.queue_tables import flat_table, read_flat_table

_VERSION: Final = 1


class StreamOffset(NamedTuple):
    """`positions` are the offsets that come next; `initial` is where the stream began."""

    positions: Mapping[QueueRef, int]
    initial: Mapping[QueueRef, int]
    born_ms: Mapping[QueueRef, int] = {}

    def to_json(self) -> dict[str, Any]:
        """Keys in order: Spark takes two offsets for equal when their texts are."""
        return {
            "born": flat_table(self.born_ms),
            "init": flat_table(self.initial),
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
                read_flat_table(value.get("born", {})),
            )
        except (KeyError, ValueError, TypeError) as error:
            raise PipelineError(f"the checkpoint has a damaged offset: {error}") from None
