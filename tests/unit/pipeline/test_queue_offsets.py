"""Numbers by queue in JSON."""

import json

import pytest

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.errors import PipelineError
from roquet.pipeline.planning import QueueRange
from roquet.pipeline.queue_offsets import (
    StreamOffset,
    flat_table,
    queue_key,
    queue_of_key,
    ranges_between,
    read_flat_table,
    read_nested_table,
    read_queue_lists,
)

QUEUES = {QueueRef("b", "broker-a", 10): 7, QueueRef("a", "odd@name", 2): 9}

QUEUE, OTHER = QueueRef("orders", "broker-a", 0), QueueRef("orders", "broker-a", 1)


def test_a_flat_table_survives_a_round_trip() -> None:
    assert read_flat_table(flat_table(QUEUES)) == QUEUES


def test_a_flat_table_is_in_the_order_of_its_keys() -> None:
    assert list(flat_table(QUEUES)) == ["a@odd@name@2", "b@broker-a@10"]


def test_a_broker_may_have_the_separator_in_its_name() -> None:
    queue = QueueRef("orders", "one@two", 3)
    assert queue_of_key(queue_key(queue)) == queue


@pytest.mark.parametrize("key", ["", "orders", "orders@broker", "orders@broker@x", "@broker@1"])
def test_what_is_no_key_is_refused(key: str) -> None:
    with pytest.raises(ValueError, match="topic@broker@queue"):
        queue_of_key(key)


def test_people_write_topic_broker_and_queue_one_inside_the_other() -> None:
    table = {"orders": {"broker-a": {"0": 23, "1": -2}}}
    assert read_nested_table(table, -2) == {
        QueueRef("orders", "broker-a", 0): 23,
        QueueRef("orders", "broker-a", 1): -2,
    }


@pytest.mark.parametrize(
    "table",
    [
        {"orders": 3},
        {"orders": {"broker-a": 3}},
        {"orders": {"broker-a": {"x": 3}}},
        {"orders": {"broker-a": {"0": "3"}}},
        {"orders": {"broker-a": {"0": -3}}},
    ],
)
def test_a_table_of_another_form_says_which_one_is_expected(table: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"topic.*broker"):
        read_nested_table(table, -2)


def test_queues_are_lists_inside_of_topic_and_broker() -> None:
    table = {"orders": {"broker-a": [0, 2]}, "bills": {"broker-b": [1]}}
    assert read_queue_lists(table) == {
        QueueRef("orders", "broker-a", 0),
        QueueRef("orders", "broker-a", 2),
        QueueRef("bills", "broker-b", 1),
    }


@pytest.mark.parametrize(
    "table",
    [
        {},
        {"orders": {}},
        {"orders": [0]},
        {"orders": {"broker-a": []}},
        {"orders": {"broker-a": 0}},
        {"orders": {"broker-a": ["0"]}},
        {"orders": {"broker-a": [-1]}},
        {"orders": {"broker-a": [True]}},
    ],
)
def test_lists_of_another_form_say_which_one_is_expected(table: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"topic.*broker"):
        read_queue_lists(table)


def test_an_offset_survives_a_round_trip() -> None:
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


def test_a_first_batch_that_is_repeated_starts_where_it_started_whatever_is_latest_now() -> None:
    asked_again = StreamOffset({QUEUE: 50}, {QUEUE: 50})
    assert ranges_between(asked_again, StreamOffset({QUEUE: 9}, {QUEUE: 5})) == [
        QueueRange(QUEUE, 5, 9)
    ]


def test_a_new_queue_starts_at_its_first_message() -> None:
    start, end = StreamOffset({QUEUE: 5}), StreamOffset({QUEUE: 5, OTHER: 8}, {OTHER: 2})
    assert ranges_between(start, end) == [QueueRange(OTHER, 2, 8)]


def test_a_queue_that_was_created_again_is_read_from_its_start() -> None:
    start, end = StreamOffset({QUEUE: 500}), StreamOffset({QUEUE: 7}, {QUEUE: 0})
    assert ranges_between(start, end) == [QueueRange(QUEUE, 0, 7)]


def test_nothing_new_is_nothing_to_read() -> None:
    first = StreamOffset({QUEUE: 5}, {QUEUE: 1})
    assert ranges_between(first, first) == []
