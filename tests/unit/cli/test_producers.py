"""`roquet producers`."""

import json

import pytest

from roquet.client.blocking.producer import Producer
from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.unit.cli.conftest import Shop


def shown(*words: str) -> list[dict[str, object]]:
    finished = roquet("producers", *words, "--json")
    assert finished.exit_code == 0, finished.stderr
    rows: list[dict[str, object]] = json.loads(finished.stdout)["producers"]
    return rows


@pytest.fixture
def till(at: Shop) -> str:
    """The client id of the shop's producer, which brokers know since its last heartbeat."""
    wait_until(lambda: bool(at.admin.producers("till")))
    return at.admin.producers("till")[0].client_id


def test_a_producer_is_shown_once_although_it_is_connected_to_two_brokers(
    at: Shop, till: str
) -> None:
    wait_until(lambda: all(at.admin.producers("till", broker=f"broker-{each}") for each in "ab"))
    (row,) = [row for row in shown() if row["group"] == "till"]
    assert (row["client"], row["language"]) == (till, "PYTHON")
    assert str(row["address"]).startswith("127.0.0.1:")
    assert row["last_seen"]


def test_of_a_group_of_a_topic_and_of_a_broker(at: Shop, till: str) -> None:
    with Producer(at.name_server, "other") as other:
        other.queues("orders")
        wait_until(lambda: bool(at.admin.producers("other")))
        assert {row["group"] for row in shown()} == {"till", "other"}
        assert {row["group"] for row in shown("--group", "other")} == {"other"}
        assert {row["group"] for row in shown("--topic", "orders")} == {"till", "other"}
        assert {row["group"] for row in shown("--broker", "broker-b")} == {"till", "other"}
    assert shown("--group", "absent") == []


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--topic", "absent"), "topic 'absent'"),
        (("--broker", "broker-x"), "broker 'broker-x' is not registered"),
    ],
)
def test_places_that_are_not_there(at: Shop, words: tuple[str, ...], text: str) -> None:
    finished = roquet("producers", *words)
    assert finished.exit_code == 4
    assert text in finished.stderr
