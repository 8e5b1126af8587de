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


def told(*words: str, exit_code: int = 0) -> Any:
    finished = roquet(*words, "--json", "--timeout", "20")
    assert finished.exit_code == exit_code, finished.stderr
    return json.loads(finished.stdout)


@pytest.fixture
def topic(new_name: NewName) -> str:
    """With three messages in one queue."""
    name = new_name("topic")
    told("topic", "create", name, "--queues", "1")
    for number in range(3):
        words = ("--key", f"key{number}", "--tags", "new", "--property", "city=Rome")
        told("message", "send", name, f"body {number}", *words)
    return name


def test_topics(apache: ApacheCluster, topic: str) -> None:
    assert topic in {each["topic"] for each in told("topic", "list", "--counts")["topics"]}
    shown = told("topic", "show", topic)
    assert (shown["messages"], len(shown["queues"])) == (3, 1)
    told("topic", "change", topic, "--read-queues", "2", "--permission", "r")
    (route,) = told("topic", "route", topic)["brokers"]
    assert (route["read_queues"], route["permission"]) == (2, "r")
    assert route["addresses"] == {"0": apache.broker.address}
    if apache.version is ApacheVersion.V5_5_0:
        return  # It fails to delete topics while its timers are off, as they are here.
    told("topic", "delete", topic, "--yes")
    assert roquet("topic", "show", topic).exit_code == 4


def test_messages(topic: str) -> None:
    (found,) = told("message", "by-key", topic, "key1")["messages"]
    assert (found["body"], found["properties"]["city"]) == ("body 1", "Rome")
    assert told("message", "by-id", topic, found["message_id"])["offset"] == 1
    bodies = [
        each["body"] for each in told("message", "by-time", topic, "--from", "1h")["messages"]
    ]
    assert bodies == ["body 0", "body 1", "body 2"]
    for words in (("--tags", "new"), ("--sql", "city = 'Rome'"), ("--grep", "body")):
        lines = roquet("message", "tail", topic, *words, "--json").stdout.splitlines()
        assert [json.loads(line)["body"] for line in lines] == bodies
    followed = roquet("message", "tail", topic, "-f", "--all", "--count", "3", "--json")
    assert len(followed.stdout.splitlines()) == 3


def test_groups_and_offsets(apache: ApacheCluster, topic: str, new_name: NewName) -> None:
    group, twin = new_name("group"), new_name("group")
    told("group", "create", group, "--retries", "3")
    told("group", "create", twin)
    with Admin(apache.name_server.address, timeout_s=20.0) as admin:
        admin.apply_reset(admin.plan_reset(group, topic, StartFrom.LAST))
        wait_until(lambda: admin.progress(group, topic=topic).lag == 0)
        told("offset", "reset", group, topic, "--to-offset", "1", "--yes")
        wait_until(lambda: admin.progress(group, topic=topic).lag == 2)
        shown = told("group", "show", group, "--topic", topic)
        assert (shown["lag"], shown["queues"][0]["committed"]) == (2, 1)
        assert shown["queues"][0]["behind_s"] > 0
        assert {each["retries"] for each in shown["settings"]} == {3}
        told("offset", "clone", group, twin, topic, "--yes")
        wait_until(lambda: admin.progress(twin, topic=topic).lag == 2)
        told("offset", "skip", group, topic, "--yes")
        wait_until(lambda: admin.progress(group, topic=topic).lag == 0)
    assert group in {each["group"] for each in told("group", "list")["groups"]}
    told("group", "delete", group, "--yes")
    assert group not in {each["group"] for each in told("group", "list", "--names")["groups"]}


def test_the_cluster_and_its_broker(apache: ApacheCluster) -> None:
    (broker,) = told("cluster")["brokers"]
    assert (broker["broker"], broker["role"]) == (apache.broker.broker_name, "master")
    assert broker["address"] == apache.broker.address
    assert broker["started"] is not None
    name = apache.broker.broker_name
    (change,) = told("broker", "config", "set", name, "fileReservedTime=49")["settings"]
    assert change["after"] == "49"
    assert told("broker", "writes", "forbid", name)["topics"] > 0
    assert told("broker", "writes", "allow", name)["topics"] > 0
    assert told("broker", "status", name)["status"]


def test_looking_and_measuring(topic: str) -> None:
    found = roquet("doctor", "--topic", topic, "--json", "--timeout", "20")
    subjects = {each["subject"]: each for each in json.loads(found.stdout)["findings"]}
    assert subjects[f"topic {topic}"]["severity"] == "fine"
    (watched,) = [
        each
        for each in told("top", "topics", "--interval", "10ms")["topics"]
        if each["topic"] == topic
    ]
    assert (watched["messages"], watched["rate"]) == (3, 0.0)
    measured = roquet("bench", "producer", "-t", topic, "-q", "20", "-w", "4", "--json")
    assert json.loads(measured.stdout.splitlines()[-1])["Send Total"] == 20
    assert told("topic", "show", topic)["messages"] == 23
