"""Commands while one of two brokers hangs or cannot be reached: the rest of the answer is shown."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from roquet.client.admin.topics import TopicSettings
from roquet.client.blocking.admin import Admin
from roquet.client.blocking.producer import Producer
from roquet.client.queue_ref import QueueRef
from roquet.protocol.messages.message import Message
from tests.support.command_line import Finished, roquet
from tests.support.dead_broker import dead_broker
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker, OurNameServer

# Each of them waits for the broker that hangs, and one worker has the brokers.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("missing-brokers")]

TIMEOUT_S = 1.5
NOT_WHOLE = "this answer is not whole, see problem: broker-b; why: roquet doctor\n"


class Place(NamedTuple):
    """Topic "t" has message "at-a" at broker-a and "at-b" at broker-b, as topics "u0" to "u5".

    Group "billing" has consumed none of them.
    """

    name_server: str
    hung: OurBroker
    # By key.
    message_ids: dict[str, str]


@contextmanager
def stopped(broker: OurBroker) -> Iterator[None]:
    os.kill(broker.process_id, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(broker.process_id, signal.SIGCONT)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("brokers")
    with OurNameServer(directory / "names") as names:
        one, other = (
            OurBroker(directory / name, names.address, broker_name=name)
            for name in ("broker-a", "broker-b")
        )
        with one, other:
            ids = filled(names.address)
            with stopped(other):
                yield Place(names.address, other, ids)


def filled(name_server: str) -> dict[str, str]:
    one_queue = TopicSettings(read_queue_count=1, write_queue_count=1)
    with Admin(name_server) as admin, Producer(name_server, "till") as producer:
        for topic in ("t", *(f"u{index}" for index in range(6)), "%DLQ%billing"):
            admin.create_topic(topic, one_queue)
        admin.create_group("billing")
        ids = {}
        for key, broker in (("at-a", "broker-a"), ("at-b", "broker-b")):
            queue = QueueRef("t", broker, 0)
            ids[key] = producer.send(Message("t", b"1", keys=(key,)), queue=queue).message_id
            producer.send(Message("%DLQ%billing", b"1"), queue=QueueRef("%DLQ%billing", broker, 0))
            admin.apply_reset(admin.plan_reset("billing", "t", {queue: 0}))
        return ids


def asked(place: Place, *words: str) -> Finished:
    return roquet(*words, "-n", place.name_server, "--timeout", str(TIMEOUT_S))


def answer(place: Place, *words: str) -> dict[str, Any]:
    """Of a command that says that broker-b is missing, and ends with 3."""
    finished = asked(place, *words, "--json")
    assert finished.exit_code == 3, finished
    assert finished.stderr.endswith(NOT_WHOLE)
    members: dict[str, Any] = json.loads(finished.stdout)
    (problem,) = members["problem"]
    assert problem["broker"] == "broker-b"
    assert problem["address"] == place.hung.address
    assert "did not answer" in problem["problem"]
    return members


def test_topic_list_shows_what_the_others_say_and_waits_once(place: Place) -> None:
    begin_s = time.monotonic()
    topics = answer(place, "topic", "list", "--counts")["topics"]
    assert {each["topic"]: each["messages"] for each in topics} == {
        "t": 1,
        **dict.fromkeys([f"u{index}" for index in range(6)], 0),
    }
    # All topics are at the broker that hangs.
    assert time.monotonic() - begin_s < 5 * TIMEOUT_S


def test_topic_show(place: Place) -> None:
    shown = answer(place, "topic", "show", "t")
    assert shown["messages"] == 1
    assert [each["broker"] for each in shown["queues"]] == ["broker-a"]
    assert shown["groups"] == [{"group": "billing"}]


def test_group_list(place: Place) -> None:
    (group,) = answer(place, "group", "list")["groups"]
    assert (group["group"], group["lag"]) == ("billing", 1)


def test_group_show(place: Place) -> None:
    shown = answer(place, "group", "show", "billing")
    assert shown["lag"] == 1
    assert [each["broker"] for each in shown["settings"]] == ["broker-a"]


def test_group_members(place: Place) -> None:
    assert answer(place, "group", "members", "billing")["members"] == 0


def test_top_keeps_topics_and_groups(place: Place) -> None:
    watch = ("--once", "--interval", "10ms")
    topics = answer(place, "top", "topics", *watch, "--filter", "u?")["topics"]
    assert {each["topic"] for each in topics} == {f"u{index}" for index in range(6)}
    (group,) = answer(place, "top", "groups", *watch)["groups"]
    assert (group["group"], group["lag"]) == ("billing", 1)


def test_offset_show(place: Place) -> None:
    (queue,) = answer(place, "offset", "show", "billing")["queues"]
    assert (queue["broker"], queue["lag"]) == ("broker-a", 1)


def test_dlq_list(place: Place) -> None:
    (group,) = answer(place, "dlq", "list")["groups"]
    assert (group["group"], group["dead_letters"]) == ("billing", 1)


def test_dlq_show(place: Place) -> None:
    assert len(answer(place, "dlq", "show", "billing")["dead_letters"]) == 1


@pytest.mark.parametrize("words", [("by-key", "t", "at-a"), ("by-time", "t")])
def test_messages_that_others_have_are_found(place: Place, words: tuple[str, ...]) -> None:
    (message,) = answer(place, "message", *words)["messages"]
    assert message["message_id"] == place.message_ids["at-a"]


def test_a_message_is_found_by_its_id(place: Place) -> None:
    found = answer(place, "message", "by-id", "t", place.message_ids["at-a"])
    assert found["keys"] == "at-a"


@pytest.mark.parametrize("words", [("by-key", "t", "at-b"), ("by-id", "t", "at-b")])
def test_what_the_hung_broker_may_hold_is_not_called_absent(
    place: Place, words: tuple[str, ...]
) -> None:
    kind, topic, key = words
    wanted = place.message_ids[key] if kind == "by-id" else key
    finished = asked(place, "message", kind, topic, wanted)
    assert finished.exit_code == 3
    assert finished.stderr.endswith(NOT_WHOLE)
    assert "matches" not in finished.stderr
    assert "no message" not in finished.stderr


def test_a_group_that_only_the_hung_broker_may_know_is_not_called_absent(place: Place) -> None:
    finished = asked(place, "group", "show", "absent")
    assert finished.exit_code == 3
    assert "does not exist" not in finished.stderr
    assert finished.stderr.endswith(NOT_WHOLE)


def test_the_last_messages_of_the_others_are_shown(place: Place) -> None:
    finished = asked(place, "message", "tail", "t")
    assert finished.exit_code == 3
    assert "at-a" in finished.stdout
    assert finished.stderr.endswith(NOT_WHOLE)


def test_the_doctor_examines_what_the_others_have(place: Place) -> None:
    finished = asked(place, "doctor", "--severity", "warning", "--json")
    found = json.loads(finished.stdout)["findings"]
    assert finished.exit_code == 1
    # The clock of broker-a is fine, however long broker-b was waited for.
    assert [(each["severity"], each["subject"]) for each in found] == [
        ("problem", "broker broker-b"),
        ("problem", "group billing"),
        ("warning", "group billing"),
    ]


def test_the_doctor_calls_nothing_absent_that_the_hung_broker_may_have(place: Place) -> None:
    printed = asked(place, "doctor", "--topic", "absent", "--group", "absent").stdout
    assert printed.count("not found at the brokers that answered; broker-b may have it") == 2
    assert "does not exist" not in printed


def test_nothing_is_changed_by_what_is_known_in_part(place: Place) -> None:
    finished = asked(place, "offset", "reset", "billing", "t", "--to-end", "--yes")
    assert finished.exit_code == 3
    (queue,) = answer(place, "offset", "show", "billing")["queues"]
    assert queue["committed"] == 0


def test_people_see_the_missing_broker_below_the_answer(place: Place) -> None:
    finished = asked(place, "topic", "list")
    table, _, problem = finished.stdout.partition("\nproblem\n")
    assert "u5" in table
    assert "broker-b" in problem
    assert place.hung.address in problem


def test_a_broker_at_a_wrong_address_is_missing(tmp_path: Path) -> None:
    with OurNameServer(tmp_path / "names") as names:
        one = OurBroker(tmp_path / "broker", names.address, broker_name="broker-a")
        with one, dead_broker(names.address, "broker-b") as address:
            place = Place(names.address, one, {})
            finished = asked(place, "topic", "list", "--json")
    assert finished.exit_code == 3
    (problem,) = json.loads(finished.stdout)["problem"]
    assert (problem["broker"], problem["address"]) == ("broker-b", address)


def test_what_a_killed_broker_holds_is_missed_by_name(tmp_path: Path) -> None:
    with OurNameServer(tmp_path / "names") as names:
        one, killed = (
            OurBroker(tmp_path / name, names.address, broker_name=name)
            for name in ("broker-a", "broker-b")
        )
        with one:
            killed.start()
            filled(names.address)
            with Admin(names.address) as admin:
                admin.create_topic("only-b", broker="broker-b")
                killed.kill()
                wait_until(lambda: len(admin.brokers(with_state=False)) == 1)
            for words, kept in (
                (("topic", "list"), "topics"),
                (("topic", "show", "t"), "queues"),
                (("group", "show", "billing"), "queues"),
                (("group", "list"), "groups"),
                (("dlq", "list"), "groups"),
                (("message", "by-key", "t", "at-b"), "messages"),
                (("message", "by-key", "only-b", "key"), None),
                (("topic", "show", "only-b"), None),
                (("group", "show", "absent"), None),
            ):
                finished = asked(Place(names.address, killed, {}), *words, "--json")
                assert finished.exit_code == 3, (words, finished)
                assert finished.stderr.endswith(NOT_WHOLE)
                shown = json.loads(finished.stdout)
                (problem,) = shown.pop("problem")
                assert (problem["broker"], problem["address"]) == ("broker-b", killed.address)
                assert problem["problem"].startswith("lost since 20")
                assert (kept in shown) == (kept is not None)
