"""`roquet dlq`."""

import json
import time

import pytest

from roquet.client.admin.topics import TopicSettings
from roquet.client.blocking.consumers import PushConsumer
from roquet.client.errors import ClientError
from roquet.client.group.start_offset import StartFrom
from roquet.client.push.outcome import DeadLetter
from roquet.client.received import ReceivedMessage
from roquet.protocol.messages.message import Message
from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.support.snapshots import check_snapshot
from tests.unit.cli.conftest import Shop


def give_up(message: ReceivedMessage) -> None:
    raise DeadLetter(f"{message.body.decode()} is not for us")


@pytest.fixture(scope="module")
def graves(shop: Shop) -> Shop:
    """Group "morgue" has given up all five orders."""

    def dead_count() -> int:
        try:
            return len(shop.admin.dead_letters("morgue"))
        except ClientError:
            return 0

    consumer = PushConsumer(shop.name_server, "morgue", give_up)
    consumer.subscribe("orders")
    with consumer:
        wait_until(lambda: dead_count() == 5)
    return shop


@pytest.fixture
def dead(graves: Shop, at: Shop) -> Shop:
    return at


def test_what_is_printed_before_they_are_sent(dead: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    check_snapshot(monkeypatch, "dlq_resend", "dlq", "resend", "morgue", "--dry-run")


def test_groups_are_listed(dead: Shop) -> None:
    groups = json.loads(roquet("dlq", "list", "--json").stdout)["groups"]
    assert {"morgue": 5}.items() <= {each["group"]: each["dead_letters"] for each in groups}.items()


def test_what_is_printed_of_one(dead: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who dies first is not known."""
    topic = TopicSettings(read_queue_count=1, write_queue_count=1)
    dead.admin.create_topic("wills", topic, broker="broker-a")
    dead.producer.send(Message("wills", b"all to you", keys=("w1",)))
    consumer = PushConsumer(dead.name_server, "heirs", give_up, start_from=StartFrom.FIRST)
    consumer.subscribe("wills")
    with consumer:
        wait_until(lambda: dead.admin.dead_letters("heirs"))
    check_snapshot(monkeypatch, "dlq_show", "dlq", "show", "heirs")


def test_dead_letters_say_where_they_came_from_and_why_they_died(dead: Shop) -> None:
    letters = json.loads(roquet("dlq", "show", "morgue", "--json").stdout)["dead_letters"]
    assert {each["reason"] for each in letters} == {
        f"order {number} is not for us" for number in range(5)
    }
    assert {each["topic"] for each in letters} == {"orders"}


def order_count(shop: Shop) -> int:
    return shop.admin.topic_statistics("orders").message_count


def test_some_are_sent_again_once(dead: Shop) -> None:
    before = order_count(dead)
    words = ("dlq", "resend", "morgue", "--id", dead.message_ids[2], "--yes")
    finished = roquet(*words)
    assert finished.exit_code == 0, finished.stderr
    assert finished.stderr == "roquet dlq resend: resent 1 messages\n"
    assert order_count(dead) == before + 1
    assert len(dead.admin.messages_by_key("orders", "key2")) == 2
    # A second time it has to be stated.
    finished = roquet(*words)
    assert (finished.exit_code, finished.stdout) == (1, "")
    assert "all 1 matching dead letters of group 'morgue' were resent before" in finished.stderr
    assert order_count(dead) == before + 1
    assert roquet(*words, "--again").exit_code == 0
    assert order_count(dead) == before + 2


def test_what_was_sent_again_is_marked(dead: Shop) -> None:
    message_id = dead.message_ids[3]
    assert roquet("dlq", "resend", "morgue", "--id", message_id, "--yes").exit_code == 0
    new_ids = {each.message_id for each in dead.admin.messages_by_key("orders", "key3")}
    letters = json.loads(roquet("dlq", "show", "morgue", "--json").stdout)["dead_letters"]
    (marked,) = (each for each in letters if each["message_id"] == message_id)
    assert marked["new_id"] in new_ids - {message_id}
    assert "@" in marked["resent_by"]
    assert marked["resent"] > marked["stored"]
    topics = roquet("topic", "list").stdout
    assert "orders" in topics
    assert "%SENT%" not in topics


def test_all_are_sent_again_and_doctor_is_content(dead: Shop) -> None:
    before = order_count(dead)
    words = ("--rate", "100", "--count", "5", "--again", "--yes", "--json")
    finished = roquet("dlq", "resend", "morgue", *words)
    assert finished.exit_code == 0, finished.stderr
    assert json.loads(finished.stdout)["dead_letters"] == 5
    assert order_count(dead) == before + 5
    groups = json.loads(roquet("dlq", "list", "--json").stdout)["groups"]
    (group,) = (each for each in groups if each["group"] == "morgue")
    assert (group["dead_letters"], group["not_resent"]) == (5, 0)
    findings = json.loads(roquet("doctor", "--group", "morgue", "--json").stdout)["findings"]
    assert not any("dead letters" in each["finding"] for each in findings)


def test_nothing_is_sent_without_a_yes(dead: Shop) -> None:
    before = order_count(dead)
    assert roquet("dlq", "resend", "morgue", "--again").exit_code == 1
    assert roquet("dlq", "resend", "morgue", "--again", "--dry-run").exit_code == 0
    assert order_count(dead) == before


@pytest.mark.parametrize("words", [("absent",), ("morgue", "--id", "X"), ("morgue", "--to", "1d")])
def test_what_is_not_there_is_not_sent(dead: Shop, words: tuple[str, ...]) -> None:
    finished = roquet("dlq", "resend", *words, "--yes")
    assert (finished.exit_code, finished.stdout) == (4, "")
    assert "has no matching dead letters; see: roquet dlq list" in finished.stderr


@pytest.mark.slow
def test_a_rate_is_kept(dead: Shop) -> None:
    begin_s = time.monotonic()
    roquet("dlq", "resend", "morgue", "--rate", "2", "--count", "4", "--again", "--yes")
    assert time.monotonic() - begin_s >= 0.9
