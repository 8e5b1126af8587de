"""`roquet group`."""

import json
import threading
from collections.abc import Iterator
from datetime import datetime

import pytest

from roquet.client.blocking.consumers import PushConsumer
from roquet.client.group.start_offset import StartFrom
from roquet.client.queue_ref import QueueRef
from roquet.client.received import ReceivedMessage
from roquet.protocol.messages.message import Message
from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.support.snapshots import check_snapshot
from tests.unit.cli.conftest import ORDERS_A, ORDERS_B, TWO_QUEUES, Shop, silent


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("group_list", ("group", "list")),
        ("group_names", ("group", "list", "--names")),
        ("group_create", ("group", "create", "billing")),
        ("group_delete", ("group", "delete", "billing", "--dry-run")),
        ("group_show", ("group", "show", "billing")),
        ("group_members_away", ("group", "members", "billing")),
    ],
)
def test_what_is_printed(
    at: Shop, monkeypatch: pytest.MonkeyPatch, name: str, words: tuple[str, ...]
) -> None:
    check_snapshot(monkeypatch, name, *words)


def test_members_are_shown(at: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = PushConsumer(at.name_server, "packing", silent)
    consumer.subscribe("orders", tags="new || old")
    with consumer:
        wait_until(lambda: bool(at.admin.members("packing").connections))
        check_snapshot(monkeypatch, "group_members", "group", "members", "packing")
        (member,) = at.admin.members("packing").client_ids
        printed = json.loads(
            roquet("group", "members", "packing", "--member", member, "--json").stdout
        )
    assert {"topic": "orders", "wants": "new || old"} in printed["subscriptions"]
    at.admin.delete_group("packing")


@pytest.fixture
def stuck(at: Shop) -> Iterator[str]:
    """The client id of a member whose listener has been called and does not return."""
    may_return, is_called = threading.Event(), threading.Event()

    def stuck_listener(_message: ReceivedMessage) -> None:
        is_called.set()
        may_return.wait()

    consumer = PushConsumer(
        at.name_server, "packing", stuck_listener, start_from=StartFrom.FIRST, concurrency=1
    )
    consumer.subscribe("orders")
    with consumer:
        assert is_called.wait(60)
        (member,) = at.admin.members("packing").client_ids
        yield member
        may_return.set()
    at.admin.delete_group("packing")


def test_a_stuck_listener_is_shown_with_its_queues_and_its_message(at: Shop, stuck: str) -> None:
    finished = roquet("group", "show", "packing", "--json")
    assert finished.exit_code == 0, finished.stderr
    shown = json.loads(finished.stdout)
    assert {each["member"] for each in shown["queues"] if each["topic"] == "orders"} == {stuck}
    (member,) = shown["members"]
    assert (member["client"], member["queues"], member["in_hand"]) == (stuck, 4, 1)
    assert member["oldest"] in at.message_ids
    assert member["key"] == f"key{at.message_ids.index(member['oldest'])}"
    held = (member["topic"], member["broker"], member["queue"])
    assert held in (ORDERS_A, ORDERS_B)
    assert member["since"] is not None
    # It pulled all, and is done with none.
    assert shown["done_rate"] == 0


def test_the_stack_of_a_member_is_printed_when_it_is_asked_for(at: Shop, stuck: str) -> None:
    finished = roquet("group", "show", "packing", "--stack")
    assert finished.exit_code == 0, finished.stderr
    assert f"\n{stuck}\n" in finished.stdout
    assert "in stuck_listener" in finished.stdout
    (reported,) = json.loads(roquet("group", "show", "packing", "--stack", "--json").stdout)[
        "stacks"
    ]
    assert reported["client"] == stuck
    assert "in stuck_listener" in reported["stack"]
    assert "in stuck_listener" not in roquet("group", "show", "packing").stdout


def test_a_message_that_waits_for_its_next_try_is_shown(at: Shop) -> None:
    at.admin.create_topic("parcels", TWO_QUEUES, broker="broker-b")
    at.admin.create_group("wrapping")

    def failing(message: ReceivedMessage) -> None:
        raise ValueError("no tape")

    consumer = PushConsumer(at.name_server, "wrapping", failing, start_from=StartFrom.FIRST)
    consumer.subscribe("parcels")
    with consumer:
        at.producer.send(Message("parcels", b"glass"))
        wait_until(lambda: "wrapping" in at.admin.waiting_messages().retries)
    waiting = at.admin.waiting_messages().retries["wrapping"]
    assert waiting.count == 1
    assert waiting.next_due is not None
    shown = json.loads(roquet("group", "show", "wrapping", "--json").stdout)
    due = datetime.fromisoformat(shown["next_retry"])
    assert (shown["retries_waiting"], due) == (1, waiting.next_due)
    assert shown["retries_ready"] == 0
    listed = json.loads(roquet("group", "list", "--json").stdout)["groups"]
    (row,) = [each for each in listed if each["group"] == "wrapping"]
    assert (row["retries_waiting"], row["retries_ready"]) == (1, 0)
    found = roquet("doctor", "--group", "wrapping")
    assert found.exit_code == 1
    assert "no member is connected; 1 messages wait for their next try" in " ".join(
        found.stdout.split()
    )
    at.admin.delete_group("wrapping")
    at.admin.delete_topic("parcels")


def test_a_retry_that_is_ready_is_part_of_the_lag_without_members(at: Shop) -> None:
    at.admin.create_group("shelving")
    at.admin.create_topic("%RETRY%shelving", TWO_QUEUES, broker="broker-a")
    at.producer.send(
        Message("%RETRY%shelving", b"again"), queue=QueueRef("%RETRY%shelving", "broker-a", 0)
    )
    shown = json.loads(roquet("group", "show", "shelving", "--json").stdout)
    assert (shown["lag"], shown["retries_ready"], shown["retries_waiting"]) == (1, 1, 0)
    at.admin.delete_group("shelving")


def test_a_group_is_created_changed_and_deleted(at: Shop) -> None:
    assert roquet("group", "create", "short", "--retries", "3").exit_code == 0
    assert roquet("group", "create", "short", "--disabled").exit_code == 0
    settings = at.admin.group_settings("short")
    assert {(each.retry_count_max, each.is_enabled) for each in settings.values()} == {(3, False)}
    assert roquet("group", "delete", "short").exit_code == 1
    assert "short" in at.admin.groups()
    assert roquet("group", "delete", "short", "--yes").exit_code == 0
    assert "short" not in at.admin.groups()


def test_names_alone(at: Shop) -> None:
    assert roquet("group", "list", "--names").stdout.split() == ["group", "billing"]


@pytest.mark.parametrize("command", ["show", "members"])
def test_a_group_that_is_not_there(at: Shop, command: str) -> None:
    finished = roquet("group", command, "absent")
    assert (finished.exit_code, finished.stdout) == (4, "")
    assert finished.stderr.startswith(f"roquet group {command}: group 'absent' does not exist")
    assert finished.stderr.endswith("see: roquet group list\n")
