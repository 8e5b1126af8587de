"""How far a stream has come, in Spark's checkpoint."""

import json

import pytest

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import PipelineError
from roquet.pipeline.stream_offset import StreamOffset

QUEUE, OTHER = QueueRef("orders", "broker-a", 0), QueueRef("orders", "broker-a", 1)


def test_an_offset_comes_back_as_it_was() -> None:
    offset = StreamOffset({QUEUE: 9, OTHER: 3}, {QUEUE: 1, OTHER: 0}, {QUEUE: 1_700_000_000_000})
    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


def test_equal_offsets_are_equal_texts_whatever_order_they_were_made_in() -> None:
    one = StreamOffset({QUEUE: 9, OTHER: 3}, {QUEUE: 1, OTHER: 0})
    two = StreamOffset({OTHER: 3, QUEUE: 9}, {OTHER: 0, QUEUE: 1})
    assert json.dumps(one.to_json()) == json.dumps(two.to_json())


@pytest.mark.parametrize(
    "value",
    [{}, {"v": 2, "q": {}, "init": {}}, {"v": 1, "q": {"x": 1}, "init": {}}, {"v": 1, "q": {}}],
)
def test_an_offset_that_is_not_ours_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(PipelineError, match="checkpoint"):
        StreamOffset.from_json(value)
