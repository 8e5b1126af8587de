"""The commands for operators at servers of Apache: the same contract as at ours."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from roquet import Admin, StartFrom
from tests.support.apache import ApacheCluster
from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]


@pytest.fixture(autouse=True)
def _at_apache(apache: ApacheCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", apache.name_server.address)
    monkeypatch.setenv("XDG_CONFIG_HOME", "nowhere")


def answer_of(*words: str, exit_code: int = 0) -> Any:
    finished = roquet(*words, "--json", "--timeout", "20")
    assert finished.exit_code == exit_code, finished.stderr
    return json.loads(finished.stdout)


@pytest.fixture
def topic(new_name: NewName) -> str:
    """With three messages in one queue."""
    name = new_name("topic")
    answer_of("topic", "create", name, "--queues", "1")
    for number in range(3):
        words = ("--key", f"key{number}", "--tags", "new", "--property", "city=Rome")
        answer_of("message", "send", name, f"body {number}", *words)
    return name


def test_topics(apache: ApacheCluster, topic: str) -> None:
    assert topic in {each["topic"] for each in answer_of("topic", "list", "--counts")["topics"]}
    shown = answer_of("topic", "show", topic)
    assert (shown["messages"], len(shown["queues"])) == (3, 1)
    answer_of("topic", "change", topic, "--read-queues", "2", "--permission", "r")
    (route,) = answer_of("topic", "route", topic)["brokers"]
    assert (route["read_queues"], route["permission"]) == (2, "r")
    assert route["addresses"] == {"0": apache.broker.address}
    if apache.version is ApacheVersion.V5_5_0:
        return  # It fails to delete topics while its timers are off, as they are here.
    answer_of("topic", "delete", topic, "--yes")
    assert roquet("topic", "show", topic).exit_code == 4


def test_messages(topic: str) -> None:
    (found,) = answer_of("message", "by-key", topic, "key1")["messages"]
    assert (found["body"], found["properties"]["city"]) == ("body 1", "Rome")
    assert answer_of("message", "by-id", topic, found["message_id"])["offset"] == 1
    bodies = [
        each["body"] for each in answer_of("message", "by-time", topic, "--from", "1h")["messages"]
    ]
    assert bodies == ["body 0", "body 1", "body 2"]
    for words in (("--tags", "new"), ("--sql", "city = 'Rome'"), ("--grep", "body")):
        lines = roquet("message", "tail", topic, *words, "--json").stdout.splitlines()
        assert [json.loads(line)["body"] for line in lines] == bodies
    followed = roquet("message", "tail", topic, "-f", "--all", "--count", "3", "--json")
    assert len(followed.stdout.splitlines()) == 3


def test_groups_and_offsets(apache: ApacheCluster, topic: str, new_name: NewName) -> None:
    group, twin = new_name("group"), new_name("group")
    answer_of("group", "create", group, "--retries", "3")
    answer_of("group", "create", twin)
    with Admin(apache.name_server.address, timeout_s=20.0) as admin:
        admin.apply_reset(admin.plan_reset(group, topic, StartFrom.LAST))
        wait_until(lambda: admin.progress(group, topic=topic).lag == 0)
        answer_of("offset", "reset", group, topic, "--to-offset", "1", "--yes")
        wait_until(lambda: admin.progress(group, topic=topic).lag == 2)
        shown = answer_of("group", "show", group, "--topic", topic)
        assert (shown["lag"], shown["queues"][0]["committed"]) == (2, 1)
        assert shown["queues"][0]["behind_s"] > 0
        assert {each["retries"] for each in shown["settings"]} == {3}
        answer_of("offset", "clone", group, twin, topic, "--yes")
        wait_until(lambda: admin.progress(twin, topic=topic).lag == 2)
        answer_of("offset", "skip", group, topic, "--yes")
        wait_until(lambda: admin.progress(group, topic=topic).lag == 0)
    assert group in {each["group"] for each in answer_of("group", "list")["groups"]}
    answer_of("group", "delete", group, "--yes")
    assert group not in {each["group"] for each in answer_of("group", "list", "--names")["groups"]}


def test_the_cluster_and_its_broker(apache: ApacheCluster) -> None:
    (broker,) = answer_of("cluster")["brokers"]
    assert (broker["broker"], broker["role"]) == (apache.broker.broker_name, "master")
    assert broker["address"] == apache.broker.address
    assert broker["started"] is not None
    name = apache.broker.broker_name
    (change,) = answer_of("broker", "config", "set", name, "fileReservedTime=49")["settings"]
    assert change["after"] == "49"
    assert answer_of("broker", "writes", "forbid", name)["topics"] > 0
    assert answer_of("broker", "writes", "allow", name)["topics"] > 0
    assert answer_of("broker", "status", name)["status"]


def test_looking_and_measuring(topic: str) -> None:
    found = roquet("doctor", "--topic", topic, "--json", "--timeout", "20")
    subjects = {each["subject"]: each for each in json.loads(found.stdout)["findings"]}
    assert subjects[f"topic {topic}"]["severity"] == "fine"
    (watched,) = [
        each
        for each in answer_of("top", "topics", "--interval", "10ms")["topics"]
        if each["topic"] == topic
    ]
    assert (watched["messages"], watched["rate"]) == (3, 0.0)
    measured = roquet("bench", "producer", "-t", topic, "-q", "20", "-w", "4", "--json")
    assert json.loads(measured.stdout.splitlines()[-1])["Send Total"] == 20
    assert answer_of("topic", "show", topic)["messages"] == 23
