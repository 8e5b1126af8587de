"""`roquet mqadmin` and Apache's mqadmin about statistics, queues, producers and exports."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roquet import Admin, Message, Producer
from roquet.protocol.names import RESENT_PREFIX
from tests.interop.test_mqadmin_twin import Both, both, topic
from tests.support.command_line import roquet
from tests.support.eventually import wait_until

__all__ = ["both", "topic"]

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]
CLUSTER = ("-c", "DefaultCluster")


@pytest.fixture
def sender(both: Both, topic: str, new_name: NewName) -> Iterator[str]:
    """The group of a producer that brokers know."""
    group = new_name("senders")
    names = both.server.name_server
    with (
        Admin(names, timeout_s=20.0) as admin,
        Producer(names, group, heartbeat_interval_s=0.2) as producer,
    ):
        producer.send(Message(topic, b"one more"), timeout_s=20)
        wait_until(lambda: bool(admin.producers(group)))
        yield group


def test_producers(both: Both, topic: str, sender: str) -> None:
    theirs = both.theirs("producer", "-b", both.server.broker)
    (client_id,) = re.findall(rf"group \({sender}\) instance : clientId=([^,]+),", theirs)
    ours = both.ours("producer", "-b", both.server.broker)["producers"]
    (row,) = [row for row in ours if row["group"] == sender]
    assert (row["client"], row["language"]) == (client_id, "PYTHON")
    of_group = ("producerConnection", "-g", sender, "-t", topic)
    (connected,) = both.ours(*of_group)["producers"]
    assert (connected["client"], connected["address"]) == (client_id, row["address"])
    assert f"{client_id} " in both.theirs(*of_group)
    all_of_them = json.loads(roquet("producers", "-n", both.server.name_server, "--json").stdout)[
        "producers"
    ]
    assert client_id in {each["client"] for each in all_of_them}


def test_statistics_of_a_topic(both: Both, topic: str) -> None:
    (row,) = both.ours("statsAll", "-t", topic)["topics"]
    (theirs,) = [row for row in both.their_rows("statsAll", "-t", topic) if row[:1] == [topic]]
    assert theirs[:3] == [row["topic"], row["group"], str(row["lag"])]
    assert row["lag"] == 3


def test_progress_of_all_groups(both: Both, topic: str) -> None:
    # Apache's tool shows only queues that a group has read.
    both.ours("skipAccumulatedMessage", "-g", f"{topic}-group", "-t", topic)
    words = ("brokerConsumeStats", "-b", both.server.broker)
    ours = [
        [
            str(row[name])
            for name in ("topic", "group", "broker", "queue", "end", "committed", "lag")
        ]
        for row in both.ours(*words)["queues"]
        if row["topic"] == topic
    ]
    theirs = [row[:7] for row in both.their_rows(*words) if row[:1] == [topic]]
    assert len(ours) == 2
    assert sorted(ours) == sorted(theirs)


def test_shares_of_consumers(both: Both, topic: str) -> None:
    words = ("allocateMQ", "-t", topic, "-i", "10.0.0.1,10.0.0.2")
    ours = Counter(row["address"] for row in both.ours(*words)["queues"])
    shares: dict[str, list[dict[str, Any]]] = json.loads(both.theirs(*words))["result"]
    # Which queues those are depends on the order of a hash set in Apache's tool.
    assert ours == {address: len(queues) for address, queues in shares.items()}


def test_pairs_of_name_servers(both: Both, topic: str) -> None:
    order = ("updateOrderConf", "-t", topic, "-m")
    both.ours(*order, "put", "-v", "broker-a:2")
    assert "orderConf=[broker-a:2]" in both.theirs(*order, "get")
    both.theirs(*order, "put", "-v", "broker-a:1")
    assert both.ours(*order, "get")["order"] == "broker-a:1"
    both.ours(*order, "delete")


def test_settings_of_name_servers(both: Both) -> None:
    ours = {row["key"]: row["value"] for row in both.ours("getNamesrvConfig")["settings"]}
    pairs = [line.partition("=") for line in both.theirs("getNamesrvConfig").splitlines()]
    theirs = {key.strip(): value.strip() for key, sign, value in pairs if sign and key.strip()}
    assert ours["listenPort"] == theirs["listenPort"]
    assert ours.keys() <= theirs.keys()


def test_entries_of_a_queue(both: Both, topic: str) -> None:
    words = ("queryCq", "-t", topic, "-q", "0", "-i", "0", "-c", "2", "-b", both.server.broker)
    ours = both.ours(*words)
    theirs = both.theirs(*words)
    assert f"max: {ours['max_offset']}, min: {ours['min_offset']}" in theirs
    found = re.findall(r"physicOffset=(\d+), physicSize=(\d+), tagsCode=(-?\d+)", theirs)
    names = ("physical_offset", "size", "tags_code")
    assert found
    assert found == [tuple(str(row[name]) for name in names) for row in ours["entries"]]


def test_messages_of_queues(both: Both, topic: str) -> None:
    (route,) = both.ours("topicRoute", "-t", topic)["brokers"]
    queue = ("-t", topic, "-a", route["broker"], "-i", "0", "-p", "true", "-d", "true")
    ours = [row["body"] for row in both.ours("printMsgByQueue", *queue)["messages"]]
    theirs = re.findall(r"BODY: (.*)$", both.theirs("printMsgByQueue", *queue), re.MULTILINE)
    assert ours == theirs
    consumed = both.ours("consumeMessage", "-t", topic)["messages"]
    everything = re.findall(
        r"BODY: (.*)$", both.theirs("consumeMessage", "-t", topic), re.MULTILINE
    )
    assert sorted(row["body"] for row in consumed) == sorted(everything)
    assert len(consumed) == 3


def test_settings_of_a_group(both: Both, topic: str) -> None:
    words = ("getConsumerConfig", "-g", f"{topic}-group")
    ours = {row["key"]: row["value"] for row in both.ours(*words)["settings"]}
    pairs = [line.partition("=") for line in both.theirs(*words).splitlines()]
    theirs = {key.strip(): value.strip() for key, sign, value in pairs if sign and key.strip()}
    for key in ("retryMaxTimes", "retryQueueNums", "brokerId", "whichBrokerWhenConsumeSlowly"):
        assert ours[key] == theirs[key]


def test_counts_of_a_day(both: Both, topic: str) -> None:
    (row,) = both.ours("clusterList", "-m")["brokers"]
    (theirs,) = [each for each in both.their_rows("clusterList", "-m") if each]
    assert theirs[:2] == [row["cluster"], row["broker"]]
    assert theirs[2:5:2] == [str(row["in_yesterday"]), str(row["in_today"])]


@pytest.mark.parametrize("command", ["cleanExpiredCQ", "cleanUnusedTopic"])
def test_cleaning(both: Both, topic: str, command: str) -> None:
    assert both.ours(command, "-b", both.server.broker)["cleaned"]
    assert both.theirs(command, "-b", both.server.broker).strip() == "success"


def test_response_times(both: Both, topic: str) -> None:
    words = ("checkMsgSendRT", "-t", topic, "-a", "3", "-s", "10")
    ours = [(row["broker"], str(row["queue"])) for row in both.ours(*words)["sends"]]
    theirs = [tuple(row[:2]) for row in both.their_rows(*words) if row[2:3] == ["true"]]
    assert len(ours) == 3
    assert ours == theirs


def resent_topics(both: Both) -> set[str]:
    """Topics of ours that note which dead letters were resent; to Apache's tool they are users'."""
    rows = both.their_rows("topicList")
    return {row[0] for row in rows if row and row[0].startswith(RESENT_PREFIX)}


@pytest.mark.parametrize(
    ("command", "file"),
    [
        ("exportMetadata", "metadata.json"),
        ("exportConfigs", "configs.json"),
        ("exportMetrics", "metrics.json"),
    ],
)
def test_exports(both: Both, topic: str, tmp_path: Path, command: str, file: str) -> None:
    both.ours(command, *CLUSTER, "-f", str(tmp_path / "ours"))
    assert "success" in both.theirs(command, *CLUSTER, "-f", str(tmp_path / "theirs"))
    both.ours(command, *CLUSTER, "-f", str(tmp_path / "again"))
    ours, theirs, again = (
        json.loads((tmp_path / which / file).read_text()) for which in ("ours", "theirs", "again")
    )
    assert ours.keys() == theirs.keys()
    match command:
        case "exportMetadata":
            resent = resent_topics(both)
            assert ours["topicConfigTable"].keys() == theirs["topicConfigTable"].keys() - resent
            member = "subscriptionGroupTable"
            assert ours[member].keys() == theirs[member].keys()
            mine, other = (each["topicConfigTable"][topic] for each in (ours, theirs))
            assert mine == {key: other.get(key) for key in mine}
        case "exportConfigs":
            assert ours["clusterScale"] == theirs["clusterScale"]
            (name,) = theirs["brokerConfigs"]
            assert theirs["brokerConfigs"][name].items() <= ours["brokerConfigs"][name].items()
        case _:
            (name,) = theirs["evaluateReport"]
            quotas = [
                each["evaluateReport"][name]["runtimeQuota"] for each in (ours, theirs, again)
            ]
            assert quotas[0].keys() == quotas[1].keys()
            assert quotas[0]["topicSize"] == quotas[1]["topicSize"] - len(resent_topics(both))
            assert quotas[0]["groupSize"] == quotas[1]["groupSize"]
            # A broker takes its samples in between: what Apache's tool was told, ours was told
            # before or after it.
            before, told, after = (each["oneDayNum"] for each in quotas)
            assert told.keys() == before.keys()
            assert all(told[name] in (before[name], after[name]) for name in told)
            totals = [each["totalData"] for each in (ours, theirs)]
            assert totals[0]["totalTps"].keys() == totals[1]["totalTps"].keys()
