"""How far a stream has come, in Spark's checkpoint."""

import json

import pytest

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import PipelineError
from roquet.pipeline.planning import QueueRange
from roquet.pipeline.stream_offset import StreamOffset, ranges_between

QUEUE, OTHER = QueueRef("orders", "broker-a", 0), QueueRef("orders", "broker-a", 1)


def test_an_offset_comes_back_as_it_was() -> None:
    offset = StreamOffset({QUEUE: 9, OTHER: 3}, {OTHER: 0}, {QUEUE: 1}, {QUEUE: 1_700_000_000_000})
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


def test_a_batch_reads_on_where_the_last_one_ended() -> None:
    start, end = StreamOffset({QUEUE: 5, OTHER: 3}), StreamOffset({QUEUE: 9, OTHER: 3})
    assert ranges_between(start, end) == [QueueRange(QUEUE, 5, 9)]


def test_a_first_batch_that_is_repeated_begins_where_it_began_whatever_is_latest_now() -> None:
    asked_again = StreamOffset({QUEUE: 50}, {QUEUE: 50})
    assert ranges_between(asked_again, StreamOffset({QUEUE: 9}, {QUEUE: 5})) == [
        QueueRange(QUEUE, 5, 9)
    ]


def test_a_new_queue_begins_at_its_first_message() -> None:
    start, end = StreamOffset({QUEUE: 5}), StreamOffset({QUEUE: 5, OTHER: 8}, {OTHER: 2})
    assert ranges_between(start, end) == [QueueRange(OTHER, 2, 8)]


def test_a_queue_that_was_made_again_is_read_from_its_beginning() -> None:
    start, end = StreamOffset({QUEUE: 500}), StreamOffset({QUEUE: 7}, {QUEUE: 0})
    assert ranges_between(start, end) == [QueueRange(QUEUE, 0, 7)]


def test_nothing_new_is_nothing_to_read() -> None:
    first = StreamOffset({QUEUE: 5}, {QUEUE: 1})
    assert ranges_between(first, first) == []
