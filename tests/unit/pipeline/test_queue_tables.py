"""Numbers by queue in JSON."""

import pytest

from roquet.client.queue_ref import QueueRef
from roquet.pipeline.queue_tables import (
    flat_table,
    queue_key,
    queue_of_key,
    read_flat_table,
    read_nested_table,
    read_queue_lists,
)

QUEUES = {QueueRef("b", "broker-a", 10): 7, QueueRef("a", "odd@name", 2): 9}


def test_a_flat_table_comes_back_as_it_was() -> None:
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
