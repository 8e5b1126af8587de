"""`roquet mqadmin` and Apache's mqadmin: the same questions, the same answers."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from roquet import Admin, Message, Producer, StartFrom, TopicSettings
from tests.support.client_servers import ClientServer
from tests.support.command_line import roquet
from tests.support.jars import ApacheVersion
from tests.support.java_driver import JavaDriver

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]


class Both:
    """One question to both tools."""

    def __init__(self, server: ClientServer, java: JavaDriver) -> None:
        self.server = server
        self._java = java

    def theirs(self, *words: str) -> str:
        printed = self._java.mqadmin(words[0], "-n", self.server.name_server, *words[1:])
        assert "SubCommandException" not in printed.complaints, printed.complaints
        return printed.output

    def their_rows(self, *words: str) -> list[list[str]]:
        return [line.split() for line in self.theirs(*words).splitlines() if line[:1] != "#"]

    def ours(self, *words: str) -> Any:
        finished = roquet("mqadmin", *words, "-n", self.server.name_server, "--json")
        assert finished.exit_code == 0, finished.stderr
        return json.loads(finished.stdout)


@pytest.fixture
def both(
    server: ClientServer,
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    monkeypatch: pytest.MonkeyPatch,
) -> Both:
    monkeypatch.setenv("XDG_CONFIG_HOME", "nowhere")
    return Both(server, java_drivers(server.java_version))


@pytest.fixture
def topic(server: ClientServer, new_name: NewName) -> str:
    """Two queues, three messages; group `topic`-group is in the middle of them."""
    name = new_name("topic")
    with (
        Admin(server.name_server, timeout_s=20.0) as admin,
        Producer(server.name_server, new_name("producers")) as producer,
    ):
        admin.create_topic(name, TopicSettings(read_queue_count=2, write_queue_count=2))
        for number in range(3):
            message = Message(name, b"body %d" % number, keys=("all",))
            producer.send(message, timeout_s=20)
        admin.create_group(f"{name}-group")
        # Apache's tool asks for the retries of a group first, and a heartbeat would make them.
        admin.create_topic(f"%RETRY%{name}-group", TopicSettings(read_queue_count=1))
        admin.apply_reset(admin.plan_reset(f"{name}-group", name, StartFrom.FIRST))
    return name


def test_topic_list(both: Both, topic: str) -> None:
    ours = {each["topic"] for each in both.ours("topicList")["topics"]}
    theirs = set(both.theirs("topicList").split())
    assert topic in ours
    assert ours == theirs


def test_topic_status(both: Both, topic: str) -> None:
    ours = [
        [each["broker"], *(str(each[name]) for name in ("queue", "min_offset", "max_offset"))]
        for each in both.ours("topicStatus", "-t", topic)["queues"]
    ]
    # 5.x has a rate behind the queues.
    theirs = [row[:4] for row in both.their_rows("topicStatus", "-t", topic) if len(row) > 4]
    assert ours == theirs


def test_topic_route(both: Both, topic: str) -> None:
    (ours,) = both.ours("topicRoute", "-t", topic)["brokers"]
    theirs = "".join(both.theirs("topicRoute", "-t", topic).split())
    assert f'"brokerName":"{ours["broker"]}"' in theirs
    assert f'"{ours["addresses"]["0"]}"' in theirs
    assert f'"readQueueNums":{ours["read_queues"]}' in theirs


def test_consumer_progress(both: Both, topic: str) -> None:
    words = ("consumerProgress", "-g", f"{topic}-group")
    shown = both.ours(*words)
    ours = {
        (each["topic"], *(str(each[name]) for name in ("queue", "end", "committed", "lag")))
        for each in shown["queues"]
        if each["topic"] == topic
    }
    theirs = {
        (row[0], row[2], row[3], row[4], row[-1] if len(row) < 7 else row[5])
        for row in both.their_rows(*words)
        if row and row[0] == topic
    }
    assert ours == theirs


def test_cluster_list(both: Both) -> None:
    (ours,) = both.ours("clusterList")["brokers"]
    (theirs,) = [row for row in both.their_rows("clusterList") if row]
    assert theirs[:4] == [ours["cluster"], ours["broker"], "0", ours["address"]]
    assert theirs[4] == ours["version"]


def test_broker_config(both: Both) -> None:
    broker = ("-b", both.server.broker)
    ours = {
        each["key"]: each["value"] for each in both.ours("getBrokerConfig", *broker)["settings"]
    }
    pairs = [line.partition("=") for line in both.theirs("getBrokerConfig", *broker).splitlines()]
    theirs = {key.strip(): value.strip() for key, sign, value in pairs if sign and key.strip()}
    assert len(theirs) > 50
    # Values of several lines, and those that change, are none of this test.
    assert ours.keys() <= theirs.keys()
    assert ours["brokerName"] == theirs["brokerName"]


def test_messages_by_key(both: Both, topic: str) -> None:
    words = ("queryMsgByKey", "-t", topic, "-k", "all")
    ours = {each["message_id"] for each in both.ours(*words)["messages"]}
    theirs = {row[0] for row in both.their_rows(*words) if row}
    assert len(ours) == 3
    assert ours == theirs


def test_a_message_by_its_id(both: Both, topic: str) -> None:
    first = both.ours("queryMsgByKey", "-t", topic, "-k", "all")["messages"][0]
    words = ("queryMsgByUniqueKey", "-t", topic, "-i", first["message_id"])
    ours = both.ours(*words)
    theirs = both.theirs(*words)
    assert re.search(rf"Queue Offset:\s+{ours['offset']}\b", theirs)
    assert re.search(rf"Queue ID:\s+{ours['queue']}\b", theirs)


def test_one_moves_a_group_and_the_other_sees_it(both: Both, topic: str) -> None:
    group = f"{topic}-group"
    both.ours("skipAccumulatedMessage", "-g", group, "-t", topic)
    rows = [row for row in both.their_rows("consumerProgress", "-g", group) if row[:1] == [topic]]
    assert all(row[3] == row[4] for row in rows)
    both.theirs("resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
    assert both.ours("consumerProgress", "-g", group, "-t", topic)["lag"] == 3
