"""`roquet mqadmin export...`: files with the members of Apache's."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.conftest import Shop
from tests.unit.cli.mqadmin.asking import answer, failure

CLUSTER = ("-c", "DefaultCluster")


def exported(directory: Path, command: str, *words: str) -> Any:
    path = Path(answer(command, *words, "-f", str(directory))["exported"])
    assert path.parent == directory
    return path.name, json.loads(path.read_text())


def test_topics_and_groups_have_the_queues_of_all_brokers(at: Shop, tmp_path: Path) -> None:
    name, content = exported(tmp_path / "new", "exportMetadata", *CLUSTER)
    assert name == "metadata.json"
    assert content["topicConfigTable"].keys() == {"orders"}
    orders = content["topicConfigTable"]["orders"]
    assert (orders["readQueueNums"], orders["writeQueueNums"]) == (4, 4)
    billing = content["subscriptionGroupTable"]["billing"]
    assert (billing["retryQueueNums"], billing["retryMaxTimes"]) == (2, 16)


@pytest.mark.parametrize(
    ("words", "name", "members"),
    [
        (("-t",), "topic.json", {"exportTime", "topicConfigTable"}),
        (("-g",), "subscriptionGroup.json", {"exportTime", "subscriptionGroupTable"}),
    ],
)
def test_topics_or_groups_alone(
    at: Shop, tmp_path: Path, words: tuple[str, ...], name: str, members: set[str]
) -> None:
    found, content = exported(tmp_path, "exportMetadata", *CLUSTER, *words)
    assert (found, content.keys()) == (name, members)


def test_retries_and_dead_letters_of_one_broker(at: Shop, tmp_path: Path) -> None:
    at.admin.create_topic("%RETRY%billing")
    address = next(each.address for each in at.admin.brokers() if each.broker_name == "broker-a")
    _, content = exported(tmp_path, "exportMetadata", "-b", address, "-s")
    assert content["topicConfigTable"].keys() == {"orders", "%RETRY%billing"}
    assert content["topicConfigTable"]["orders"]["readQueueNums"] == 2


def test_settings_of_brokers(at: Shop, tmp_path: Path) -> None:
    name, content = exported(tmp_path, "exportConfigs", *CLUSTER)
    assert name == "configs.json"
    assert content["clusterScale"] == {
        "namesrvSize": 1,
        "masterBrokerSize": 2,
        "slaveBrokerSize": 0,
    }
    assert content["brokerConfigs"]["broker-b"]["brokerName"] == "broker-b"


def test_figures_of_brokers_and_their_sums(at: Shop, tmp_path: Path) -> None:
    name, content = exported(tmp_path, "exportMetrics", *CLUSTER)
    assert name == "metrics.json"
    assert content["evaluateReport"].keys() == {"broker-a", "broker-b"}
    quota = content["evaluateReport"]["broker-a"]["runtimeQuota"]
    assert (quota["topicSize"], quota["groupSize"]) == (1, 1)
    totals = content["totalData"]
    assert totals["totalOneDayNum"]["normalOneDayInNum"] == 0
    assert totals["totalTps"].keys() == {
        *("totalNormalInTps", "totalNormalOutTps", "totalScheduleInTps", "totalTransInTps"),
    }


def test_a_directory_that_cannot_be_made(at: Shop, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    exit_code, text = failure("exportConfigs", *CLUSTER, "-f", str(file))
    assert exit_code == 2
    assert text.endswith("; choose a directory with -f\n")
