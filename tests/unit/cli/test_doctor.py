"""`roquet doctor`, with a cluster that has what it looks for."""

import json

import pytest

from roquet.client.blocking.consumers import PushConsumer
from roquet.testing.blocking import BlockingCluster
from tests.support.command_line import roquet
from tests.support.dead_broker import dead_broker
from tests.support.eventually import wait_until
from tests.support.ports import free_port
from tests.support.snapshots import check_snapshot
from tests.unit.cli.conftest import Shop, silent


def findings(*words: str, exit_code: int = 1) -> list[str]:
    """All that is not fine."""
    finished = roquet("doctor", *words, "--json")
    assert finished.exit_code == exit_code, finished.stderr
    found = json.loads(finished.stdout)["findings"]
    return [
        f"{each['severity']}: {each['subject']} {each['finding']}"
        for each in found
        if each["severity"] != "fine"
    ]


def test_what_is_printed(at: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody of group billing is connected."""
    check_snapshot(monkeypatch, "doctor", "doctor", exit_code=1)


def test_a_cluster_that_is_well(roquet_cluster: BlockingCluster) -> None:
    roquet_cluster.new_topic("t")
    words = ("-n", roquet_cluster.name_server, "--topic", "t")
    assert findings(*words, exit_code=0) == []


def test_no_name_server_listens() -> None:
    (found,) = findings("-n", f"127.0.0.1:{free_port()}", "--timeout", "2")
    assert found.startswith("problem: name server 127.0.0.1:")


def test_a_broker_that_is_unreachable(roquet_cluster: BlockingCluster) -> None:
    with dead_broker(roquet_cluster.name_server, "broker-z"):
        found, about_its_topics = findings("-n", roquet_cluster.name_server, "--timeout", "2")
    assert about_its_topics.startswith("problem: 2 topics more write than read queues at broker-z")
    assert found.startswith("problem: broker broker-z")
    assert "cannot be asked" in found


def test_an_endpoint_that_cannot_be_connected_to() -> None:
    # A cluster inside a test serves none.
    settings = {"grpcPort": str(free_port())}
    with BlockingCluster(settings=settings) as cluster:
        (found,) = findings("-n", cluster.name_server, exit_code=0)
    assert found.startswith("warning: broker broker-a routes send SDKs of 5.x to 127.0.0.1:")
    assert found.endswith("which cannot be connected to from here: Connection refused")


def test_a_topic_that_takes_nothing(at: Shop) -> None:
    assert roquet("topic", "create", "closed", "--permission", "r").exit_code == 0
    assert "problem: topic closed no broker accepts messages for it" in findings(
        "--topic", "closed"
    )
    assert roquet("topic", "delete", "closed", "--yes").exit_code == 0


def test_a_topic_that_is_not_there_yet(at: Shop) -> None:
    found = findings("--topic", "absent", "--group", "billing")
    assert any("does not exist yet; the first message creates it" in each for each in found)


def test_a_group_that_is_unknown(at: Shop) -> None:
    (found,) = findings("--group", "absent")
    assert found.startswith("problem: group absent no broker knows a group 'absent'")


def test_members_with_different_subscriptions(at: Shop) -> None:
    one = PushConsumer(at.name_server, "torn", silent)
    one.subscribe("orders", tags="new")
    two = PushConsumer(at.name_server, "torn", silent)
    two.subscribe("orders", tags="old")
    with one, two:
        wait_until(lambda: len(at.admin.members("torn").connections) == 2)
        found = findings("--group", "torn")
    assert any("its members have different subscriptions" in each for each in found)
    at.admin.delete_group("torn")


def test_many_topics_of_one_cause_are_one_line(at: Shop) -> None:
    for index in range(5):
        assert roquet("topic", "create", f"many{index}", "--broker", "broker-a").exit_code == 0
    assert roquet("broker", "writes", "forbid", "broker-a").exit_code == 0
    try:
        finished = roquet("doctor", "--severity", "problem")
    finally:
        assert roquet("broker", "writes", "allow", "broker-a").exit_code == 0
        for index in range(5):
            assert roquet("topic", "delete", f"many{index}", "--yes").exit_code == 0
    printed = " ".join(finished.stdout.split())
    assert "no broker accepts messages for it: many0, many1, many2 and 2 more" in printed
    assert "roquet broker writes allow broker-a" in printed
    assert "reachable" not in printed
    assert finished.stdout.splitlines()[-1].startswith("2 problems, ")


def test_the_counts_are_in_json(at: Shop) -> None:
    members = json.loads(roquet("doctor", "--json").stdout)
    assert (members["problems"], members["warnings"]) == (1, 0)
