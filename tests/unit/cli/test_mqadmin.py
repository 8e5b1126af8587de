"""`roquet mqadmin`: Apache's names and flags stand for commands of ours."""

import json

import pytest

from roquet.cli.mqadmin import COMMANDS
from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.support.snapshots import settled
from tests.unit.cli.conftest import ORDERS_A, Shop


def mqadmin(*words: str) -> str:
    finished = roquet("mqadmin", *words)
    assert finished.exit_code == 0, finished.stderr
    return finished.stdout


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("topicList", "topic list --all"),
        ("topicStatus -t orders", "topic show orders"),
        ("topicRoute -t orders", "topic route orders"),
        ("topicClusterList -t orders", "topic route orders"),
        ("consumerProgress -g billing -t orders", "group show billing --topic orders"),
        ("consumerConnection -g billing", "group members billing"),
        ("queryMsgByKey -t orders -k key1 -m 5", "message by-key orders key1 --count 5"),
        ("printMsg -t orders -b 2020-01-01#10:00:00:000", "message by-time orders"),
        (
            "queryMsgByOffset -t orders -b broker-a -i 0 -o 1",
            "message by-offset orders broker-a:0 1",
        ),
    ],
)
def test_a_question_gets_the_same_answer_by_both_names(at: Shop, theirs: str, ours: str) -> None:
    def are_same() -> bool:
        their_answer = mqadmin(*theirs.split(), "-n", at.name_server, "--json")
        return settled(their_answer) == settled(roquet(*ours.split(), "--json").stdout)

    # The cluster is young: more is registered meanwhile.
    wait_until(are_same)


def test_topics_are_made_and_changed_and_deleted(at: Shop) -> None:
    mqadmin("updateTopic", "-t", "theirs", "-c", "DefaultCluster", "-r", "2", "-w", "3")
    mqadmin("updateTopic", "-t", "theirs", "-c", "DefaultCluster", "-w", "1")
    settings = at.admin.topic_settings("theirs")
    assert {(each.read_queue_count, each.write_queue_count) for each in settings.values()} == {
        (2, 1)
    }
    mqadmin("updateTopicPerm", "-t", "theirs", "-p", "4", "-c", "DefaultCluster")
    assert {int(each.permission) for each in at.admin.topic_settings("theirs").values()} == {4}
    mqadmin("deleteTopic", "-t", "theirs", "-c", "DefaultCluster")
    assert "theirs" not in at.admin.topics()


def test_groups_are_made_and_moved_and_deleted(at: Shop) -> None:
    mqadmin("updateSubGroup", "-g", "theirs", "-c", "DefaultCluster", "-r", "5", "-s", "false")
    settings = at.admin.group_settings("theirs")
    assert {(each.retry_count_max, each.is_enabled) for each in settings.values()} == {(5, False)}
    mqadmin("cloneGroupOffset", "-s", "billing", "-d", "theirs", "-t", "orders")
    offsets = {each.queue: each.consumer_offset for each in at.admin.progress("theirs").queues}
    assert offsets[ORDERS_A] == 1
    mqadmin("resetOffsetByTime", "-g", "theirs", "-t", "orders", "-s", "0")
    assert at.admin.progress("theirs").lag == 5
    mqadmin("skipAccumulatedMessage", "-g", "theirs", "-t", "orders")
    assert at.admin.progress("theirs").lag == 0
    mqadmin("deleteSubGroup", "-g", "theirs", "-c", "DefaultCluster", "-r", "true")
    assert "theirs" not in at.admin.groups()


def test_brokers_are_named_by_address(at: Shop) -> None:
    address = next(each.address for each in at.admin.brokers() if each.broker_name == "broker-b")
    mqadmin("updateBrokerConfig", "-b", address, "-k", "fileReservedTime", "-v", "50")
    printed = json.loads(mqadmin("getBrokerConfig", "-b", address, "--json"))["settings"]
    assert {"key": "fileReservedTime", "value": "50"} in printed
    assert "broker-b" in mqadmin("brokerStatus", "-b", address)
    assert mqadmin("wipeWritePerm", "-b", "broker-b")
    assert mqadmin("addWritePerm", "-b", "broker-b")


def test_a_message_is_sent_and_found(at: Shop) -> None:
    at.admin.create_topic("letters")
    printed = mqadmin(
        "sendMessage", "-t", "letters", "-p", "hello", "-k", "a b", "-c", "new", "--json"
    )
    (message_id,) = [each["message_id"] for each in json.loads(printed)["sent"]]
    for name in ("queryMsgById", "queryMsgByUniqueKey"):
        found = json.loads(mqadmin(name, "-t", "letters", "-i", message_id, "--json"))
        assert (found["body"], found["keys"], found["tags"]) == ("hello", "a b", "new")


def test_what_apache_requires_is_required() -> None:
    finished = roquet("mqadmin", "topicStatus")
    assert finished.exit_code == 2
    assert "-t/--topic" in finished.stderr


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    finished = roquet("mqadmin", name, "--help")
    assert finished.exit_code == 0
    assert finished.stdout.startswith(f"usage: roquet mqadmin {name} ")
