"""`roquet topic`."""

import json

import pytest

from roquet.client.admin.topics import TopicSettings
from roquet.protocol.codes import Permission
from roquet.protocol.messages.message import Message
from tests.support.command_line import roquet
from tests.support.snapshots import check_snapshot
from tests.unit.cli.conftest import Shop


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("topic_list", ("topic", "list", "--counts")),
        ("topic_show", ("topic", "show", "orders")),
        ("topic_route", ("topic", "route", "orders")),
        ("topic_change", ("topic", "change", "orders", "--queues", "2")),
        ("topic_delete", ("topic", "delete", "orders", "--dry-run")),
    ],
)
def test_what_is_printed(
    at: Shop, monkeypatch: pytest.MonkeyPatch, name: str, words: tuple[str, ...]
) -> None:
    check_snapshot(monkeypatch, name, *words)


def test_internal_topics_are_listed_on_request(at: Shop) -> None:
    few, all_ = (
        {each["topic"] for each in json.loads(roquet("topic", "list", *words).stdout)["topics"]}
        for words in (("--json",), ("--json", "--all"))
    )
    assert "TBW102" not in few
    assert few | {"TBW102"} <= all_


def test_a_topic_is_created_changed_and_deleted(at: Shop) -> None:
    created = roquet("topic", "create", "short", "--queues", "3", "--json")
    assert created.exit_code == 0, created.stderr
    assert [each["read_queues"] for each in json.loads(created.stdout)["brokers"]] == [3, 3]
    assert {each.read_queue_count for each in at.admin.topic_settings("short").values()} == {3}

    changed = roquet("topic", "change", "short", "--permission", "r", "--broker", "broker-b")
    assert changed.exit_code == 0, changed.stderr
    settings = at.admin.topic_settings("short")
    assert settings["broker-b"].permission == Permission.READ
    assert settings["broker-b"].read_queue_count == 3
    assert settings["broker-a"].permission == Permission.READ | Permission.WRITE

    assert roquet("topic", "delete", "short", "--yes").exit_code == 0
    assert "short" not in at.admin.topics()


def test_a_topic_that_is_there_is_not_created_again(at: Shop) -> None:
    finished = roquet("topic", "create", "orders", "--queues", "9")
    assert (finished.exit_code, finished.stdout) == (1, "")
    assert finished.stderr == (
        "roquet topic create: topic 'orders' already exists; change it with: roquet topic change\n"
    )


def test_nothing_is_deleted_without_a_yes(at: Shop) -> None:
    finished = roquet("topic", "delete", "orders")
    assert finished.exit_code == 1
    assert "messages  5" in finished.stdout.replace("   ", "  ")
    assert "nothing was changed: confirm with --yes" in finished.stderr
    assert roquet("topic", "delete", "orders", "--dry-run").exit_code == 0
    assert "orders" in at.admin.topics()


@pytest.mark.parametrize(
    "words",
    [
        ("topic", "show", "absent"),
        ("topic", "change", "absent", "--queues", "1"),
        ("topic", "delete", "absent", "--yes"),
    ],
)
def test_a_topic_that_is_not_there(at: Shop, words: tuple[str, ...]) -> None:
    finished = roquet(*words)
    assert (finished.exit_code, finished.stdout) == (4, "")
    complaint = "topic 'absent': no broker has it; see: roquet topic list\n"
    assert finished.stderr == f"roquet topic {words[1]}: {complaint}"


def test_delayed_messages_of_a_topic_are_shown(at: Shop) -> None:
    at.admin.create_topic("later", TopicSettings(), broker="broker-a")
    at.producer.send(Message("later", b"in two hours"), delay_level=18)
    shown = json.loads(roquet("topic", "show", "later", "--json").stdout)
    assert (shown["messages"], shown["delayed"], shown["half_messages"]) == (0, 1, 0)
    at.admin.delete_topic("later")
