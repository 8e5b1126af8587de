"""`roquet mqadmin` about brokers: what only Apache's tool has."""

import json
import signal
import subprocess
import sys

import pytest

from roquet.cli.mqadmin.brokers import day_counts
from roquet.testing.blocking import BlockingCluster
from tests.support.command_line import roquet
from tests.support.dead_broker import dead_broker
from tests.unit.cli.conftest import Shop
from tests.unit.cli.mqadmin.asking import answer, failure


def address_of(at: Shop, name: str) -> str:
    return next(each.address for each in at.admin.brokers() if each.broker_name == name)


def test_counts_of_a_day_are_differences_of_totals() -> None:
    runtime = {
        "msgPutTotalYesterdayMorning": "10",
        "msgPutTotalTodayMorning": "30",
        "msgPutTotalTodayNow": "31",
        "msgGetTotalYesterdayMorning": "1",
        "msgGetTotalTodayMorning": "5",
        "msgGetTotalTodayNow": "11",
    }
    assert day_counts(runtime) == (20, 4, 1, 6)
    assert day_counts({}) == (0, 0, 0, 0)


def test_brokers_with_what_came_and_went_today(at: Shop) -> None:
    rows = answer("clusterList", "-m")["brokers"]
    assert [(row["broker"], row["in_today"]) for row in rows] == [("broker-a", 3), ("broker-b", 2)]
    assert {row["in_yesterday"] for row in rows} == {0}


@pytest.mark.parametrize("command", [("clusterList", "-m"), ("haStatus",)])
def test_a_broker_that_does_not_answer_is_named(
    roquet_cluster: BlockingCluster, command: tuple[str, ...]
) -> None:
    address = roquet_cluster.name_server
    with dead_broker(address, "broker-z"):
        finished = roquet("mqadmin", *command, "-n", address, "--json")
    assert finished.exit_code == 3
    assert "broker-z did not answer: " in finished.stderr
    assert '"broker-a"' in finished.stdout


def test_replication_of_masters_without_slaves(at: Shop) -> None:
    found = answer("haStatus", "-c", "DefaultCluster")
    assert [(row["broker"], row["slaves"]) for row in found["masters"]] == [
        ("broker-a", 0),
        ("broker-b", 0),
    ]
    assert (found["slaves"], found["links"]) == ([], [])
    (only,) = answer("haStatus", "-b", address_of(at, "broker-b"))["masters"]
    assert only["broker"] == "broker-b"
    assert only["log_end"] > 0


def test_a_cluster_that_is_not_there(at: Shop) -> None:
    exit_code, text = failure("haStatus", "-c", "elsewhere")
    assert exit_code == 4
    assert "no master is registered in cluster 'elsewhere'" in text
    assert "DefaultCluster" in text


@pytest.mark.parametrize("command", ["cleanExpiredCQ", "cleanUnusedTopic"])
def test_cleaning_keeps_what_is_used(at: Shop, command: str) -> None:
    assert answer(command)["cleaned"] == [{"broker": "broker-a"}, {"broker": "broker-b"}]
    of_cluster = answer(command, "-c", "DefaultCluster")["cleaned"]
    assert of_cluster == [{"broker": "broker-a"}, {"broker": "broker-b"}]
    at_one = answer(command, "-b", address_of(at, "broker-b"))["cleaned"]
    assert at_one == [{"broker": "broker-b"}]
    assert at.admin.topic_statistics("orders").message_count == 5


def test_response_times_of_a_topic(at: Shop) -> None:
    at.admin.create_topic("echo")
    found = answer("checkMsgSendRT", "-t", "echo", "-a", "3", "-s", "10")
    assert [row["problem"] for row in found["sends"]] == [None] * 3
    assert found["average_ms"] > 0
    assert at.admin.topic_statistics("echo").message_count == 3
    at.admin.delete_topic("echo")


def test_response_times_of_a_topic_that_is_not_there(at: Shop) -> None:
    assert failure("checkMsgSendRT", "-t", "absent")[0] == 4


def test_response_times_of_brokers_are_shown_until_it_is_stopped(at: Shop) -> None:
    words = ("mqadmin", "clusterRT", "-a", "2", "-i", "1", "-n", at.name_server, "--json")
    run = "import sys; from roquet.cli.main import main; sys.argv[0] = 'roquet'; main()"
    with subprocess.Popen(
        [sys.executable, "-uc", run, *words], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        rounds = [json.loads(process.stdout.readline())["brokers"] for _ in range(2)]
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    for rows in rounds:
        found = [(row["broker"], row["sent"], row["failed"]) for row in rows]
        assert found == [("broker-a", 2, 0), ("broker-b", 2, 0)]


def test_an_interval_is_a_number_of_seconds() -> None:
    finished = roquet("mqadmin", "haStatus", "-i", "0")
    assert finished.exit_code == 2
    assert "-i/--interval" in finished.stderr
