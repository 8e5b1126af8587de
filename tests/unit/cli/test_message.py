"""`roquet message`."""

import io
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.client.blocking.admin import Admin
from roquet.client.blocking.consumers import PushConsumer
from roquet.client.blocking.producer import Producer
from roquet.client.group.start_offset import StartFrom
from roquet.client.producer.receipt import SendReceipt
from roquet.client.push.outcome import DeadLetter
from roquet.client.received import ReceivedMessage
from roquet.protocol.messages.message import Message
from roquet.testing.blocking import BlockingCluster
from tests.support.command_line import roquet
from tests.support.dead_broker import dead_broker
from tests.support.eventually import wait_until
from tests.support.snapshots import check_snapshot
from tests.unit.cli.conftest import Shop, silent


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("message_tail", ("message", "tail", "orders", "--last", "2")),
        ("message_by_key", ("message", "by-key", "orders", "key3")),
        ("message_by_time", ("message", "by-time", "orders", "--from", "1h", "--count", "2")),
        ("message_by_offset", ("message", "by-offset", "orders", "broker-b:1", "1")),
    ],
)
def test_what_is_printed(
    at: Shop, monkeypatch: pytest.MonkeyPatch, name: str, words: tuple[str, ...]
) -> None:
    check_snapshot(monkeypatch, name, *words)


def test_a_message_is_shown_by_its_id(at: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    check_snapshot(monkeypatch, "message_by_id", "message", "by-id", "orders", at.message_ids[0])


def test_a_single_message_of_a_key_is_shown_with_its_groups(at: Shop) -> None:
    finished = roquet("message", "by-key", "orders", "key0", "--json")
    assert finished.exit_code == 0, finished.stderr
    shown = json.loads(finished.stdout)
    assert [each["keys"] for each in shown["messages"]] == ["key0"]
    assert [(each["group"], each["state"]) for each in shown["groups"]] == [("billing", "consumed")]


def test_a_broker_that_does_not_answer_is_named_and_nothing_is_called_consumed(
    roquet_cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", roquet_cluster.name_server)
    topic = roquet_cluster.new_topic(queues=1)
    (message_id,) = sent(roquet("message", "send", topic, "x", "--json").stdout)
    roquet("group", "create", "readers")
    reset = roquet("offset", "reset", "readers", topic, "--to-end", "--yes")
    assert reset.exit_code == 0, reset.stderr
    with dead_broker(roquet_cluster.name_server, "broker-z"):
        finished = roquet("message", "by-id", topic, message_id, "--json")
    assert finished.exit_code == 3
    assert "broker-z" in finished.stderr
    (group,) = json.loads(finished.stdout)["groups"]
    assert (group["group"], group["state"]) == ("readers", "broker not asked")


def test_a_dead_letter_is_shown_where_it_is_with_the_topic_it_came_from(
    roquet_cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", roquet_cluster.name_server)
    topic = roquet_cluster.new_topic(queues=1)
    (message_id,) = sent(roquet("message", "send", topic, "x", "--key", "k", "--json").stdout)
    consumer = PushConsumer(
        roquet_cluster.name_server, "readers", hopeless, start_from=StartFrom.FIRST
    )
    consumer.subscribe(topic)
    with consumer:
        wait_until(lambda: roquet_cluster.received("%DLQ%readers"))
    by_id = json.loads(roquet("message", "by-id", "%DLQ%readers", message_id, "--json").stdout)
    assert (by_id["topic"], by_id["original_topic"]) == ("%DLQ%readers", topic)
    by_key = json.loads(roquet("message", "by-key", "%DLQ%readers", "k", "--json").stdout)
    assert [each["topic"] for each in by_key["messages"]] == ["%DLQ%readers"]
    tracked = json.loads(roquet("message", "by-id", topic, message_id, "--json").stdout)
    assert [each["state"] for each in tracked["groups"]] == ["dead letter"]
    (new_id,) = (each.message_id for each in resent(roquet_cluster.name_server, "readers"))
    tracked = json.loads(roquet("message", "by-id", topic, message_id, "--json").stdout)
    assert f"resent as {new_id}; " in tracked["groups"][0]["note"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("by-id", "orders", "0" * 32), "no message of topic 'orders' has the id"),
        (("by-key", "orders", "absent"), "no message matches"),
        (("by-time", "orders", "--to", "2d"), "no message matches"),
        (("trace", "0" * 32), "no trace found"),
    ],
)
def test_what_is_not_found(at: Shop, words: tuple[str, ...], complaint: str) -> None:
    finished = roquet("message", *words)
    assert finished.exit_code == 4
    assert complaint in finished.stderr


def hopeless(_message: ReceivedMessage) -> None:
    raise DeadLetter("no such customer")


def resent(name_server: str, group: str) -> list[SendReceipt]:
    with Admin(name_server) as admin:
        return admin.resend(admin.dead_letters(group))


def sent(finished_stdout: str) -> list[str]:
    return [each["message_id"] for each in json.loads(finished_stdout)["sent"]]


def test_a_message_is_sent_with_all_options(at: Shop) -> None:
    at.admin.create_topic("post")
    finished = roquet(
        *("message", "send", "post", "hello", "--tags", "new", "--key", "k1", "--key", "k2"),
        *("--property", "city=Rome", "--queue", "broker-b:1", "--json"),
    )
    assert finished.exit_code == 0, finished.stderr
    (message,) = at.admin.messages_by_key("post", "k2")
    assert [message.message_id] == sent(finished.stdout)
    assert (message.body, message.tags, message.keys) == (b"hello", "new", ("k1", "k2"))
    assert message.properties["city"] == "Rome"
    assert message.queue[1:] == ("broker-b", 1)


def test_a_file_is_sent_as_it_is(at: Shop, tmp_path: Path) -> None:
    path = tmp_path / "body"
    path.write_bytes(b"\xff\x00")
    finished = roquet("message", "send", "orders-2", "--file", path, "--count", "2", "--json")
    assert finished.exit_code == 0, finished.stderr
    bodies = [at.admin.message("orders-2", each).body for each in sent(finished.stdout)]
    assert bodies == [b"\xff\x00", b"\xff\x00"]


def test_lines_of_standard_input_are_messages(at: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"one\ntwo\r\n")))
    finished = roquet("message", "send", "orders-2", "--lines", "--json")
    assert [at.admin.message("orders-2", each).body for each in sent(finished.stdout)] == [
        b"one",
        b"two",
    ]


def test_a_file_that_is_not_there(at: Shop) -> None:
    finished = roquet("message", "send", "orders", "--file", "absent")
    assert (finished.exit_code, finished.stdout) == (2, "")
    assert finished.stderr == "roquet message send: absent: No such file or directory\n"


# Reading along.


def tailed(*words: str) -> list[str]:
    finished = roquet("message", "tail", *words, "--json")
    assert finished.exit_code == 0, finished.stderr
    return [json.loads(line)["body"] for line in finished.stdout.splitlines()]


@pytest.mark.parametrize(
    ("words", "bodies"),
    [
        ((), [0, 1, 2, 3, 4]),
        (("--last", "1"), [4]),
        (("--last", "0"), []),
        (("--all",), [0, 1, 2, 3, 4]),
        (("--since", "1h", "--count", "2"), [0, 1]),
        (("--tags", "new || old"), [0, 1, 2, 3, 4]),
        (("--tags", "old"), []),
        (("--sql", "city = 'Rome'"), [0, 1, 2, 3, 4]),
        (("--sql", "city = 'Bonn'"), []),
        (("--key", "key2"), [2]),
        (("--property", "city=Rome", "--grep", "der 3"), [3]),
        (("--property", "city=Bonn"), []),
    ],
)
def test_a_topic_is_read_along(at: Shop, words: tuple[str, ...], bodies: list[int]) -> None:
    assert tailed("orders", *words) == [f"order {each}" for each in bodies]


def test_lines_are_for_people(at: Shop) -> None:
    finished = roquet("message", "tail", "orders", "--last", "1")
    (line,) = finished.stdout.splitlines()
    assert line.endswith("  broker-b:1:1  new key4  order 4")


def test_sql_that_makes_no_sense(at: Shop) -> None:
    finished = roquet("message", "tail", "orders", "--sql", "city =")
    assert (finished.exit_code, finished.stdout) == (1, "")
    assert "refused" in finished.stderr


def test_following_starts_with_what_is_there_and_ends_after_as_many_as_wanted(at: Shop) -> None:
    bodies = tailed("orders", "-f", "--all", "--count", "5")
    assert sorted(bodies) == [f"order {each}" for each in range(5)]


@pytest.fixture
def following(roquet_cluster: BlockingCluster) -> Iterator[subprocess.Popen[str]]:
    topic = roquet_cluster.new_topic("followed", queues=1)
    words = ("message", "tail", topic, "-f", "-n", roquet_cluster.name_server)
    with subprocess.Popen(
        [sys.executable, "-c", "from roquet.cli.main import main; main()", *words],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield process
        process.kill()


@pytest.mark.slow
def test_a_follower_of_a_topic_sees_new_messages_until_it_is_stopped(
    roquet_cluster: BlockingCluster, following: subprocess.Popen[str]
) -> None:
    assert following.stdout is not None
    with Producer(roquet_cluster.name_server, "till") as producer:
        for number in range(3):
            producer.send(Message("followed", b"news %d" % number))
            assert following.stdout.readline().endswith(f"  news {number}\n")
    following.send_signal(signal.SIGINT)
    assert following.wait(30) == 0


@pytest.mark.roquet_cluster(settings={"traceTopicEnable": "true"})
def test_a_trace_shows_what_became_of_a_message(
    roquet_cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", roquet_cluster.name_server)
    (message_id,) = sent(roquet("message", "send", "t", "x", "--trace", "--json").stdout)
    consumer = PushConsumer(
        roquet_cluster.name_server, "readers", silent, trace=True, start_from=StartFrom.FIRST
    )
    consumer.subscribe("t")
    with consumer:
        roquet_cluster.consumed("readers")
    # What was traced is sent when the consumer closes.
    finished = roquet("message", "trace", message_id, "--json")
    assert finished.exit_code == 0, finished.stderr
    events = json.loads(finished.stdout)["trace"]
    assert [(each["event"], each["group"], each["outcome"]) for each in events] == [
        ("sent", "roquet-cli", "stored, normal"),
        ("delivered", "readers", None),
        ("consumed", "readers", "success"),
    ]
    assert events[1]["retries"] == 0
    assert all(re.fullmatch(r"127\.0\.0\.1:\d+", each["client"]) for each in events)


@pytest.mark.roquet_cluster(settings={"traceTopicEnable": "true"})
def test_a_trace_ends_with_the_step_into_the_dead_letters(
    roquet_cluster: BlockingCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", roquet_cluster.name_server)
    (message_id,) = sent(roquet("message", "send", "t", "x", "--trace", "--json").stdout)
    consumer = PushConsumer(
        roquet_cluster.name_server, "readers", hopeless, trace=True, start_from=StartFrom.FIRST
    )
    consumer.subscribe("t")
    with consumer:
        wait_until(lambda: roquet_cluster.received("%DLQ%readers"))
    events = json.loads(roquet("message", "trace", message_id, "--json").stdout)["trace"]
    last = events[-1]
    assert (last["event"], last["group"]) == ("dead letter", "readers")
    assert last["outcome"] == "no such customer"
