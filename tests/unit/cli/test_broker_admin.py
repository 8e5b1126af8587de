"""`roquet broker status|config|writes`."""

import json
from pathlib import Path

import pytest

from roquet.client.blocking.admin import Admin
from roquet.protocol.codes import Permission
from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.snapshots import check_snapshot
from tests.unit.cli.conftest import Shop


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("broker_config_get", ("config", "get", "broker-a", "brokerName", "flush*Timeout")),
        ("broker_config_set", ("config", "set", "broker-b", "fileReservedTime=72")),
    ],
)
def test_what_is_printed(
    at: Shop, monkeypatch: pytest.MonkeyPatch, name: str, words: tuple[str, ...]
) -> None:
    check_snapshot(monkeypatch, name, "broker", *words)


def test_a_broker_reports_its_status(at: Shop) -> None:
    finished = roquet("broker", "status", "broker-b", "--json")
    printed = json.loads(finished.stdout)
    assert printed["broker"] == "broker-b"
    values = {each["name"]: each["value"] for each in printed["status"]}
    assert int(values["putMessageTimesTotal"]) >= 2


def test_a_setting_is_changed_and_the_old_value_shown(at: Shop) -> None:
    finished = roquet("broker", "config", "set", "broker-a", "fileReservedTime=48", "--json")
    (row,) = json.loads(finished.stdout)["settings"]
    assert (row["before"], row["after"]) == ("72", "48")
    (broker,) = [each for each in at.admin.brokers() if each.broker_name == "broker-a"]
    assert at.admin.broker_config(broker.address)["fileReservedTime"] == "48"


@pytest.mark.parametrize(
    ("words", "exit_code", "complaint"),
    [
        (
            ("status", "broker-z"),
            4,
            "broker 'broker-z' is not registered; registered brokers: broker-a, broker-b",
        ),
        (("config", "get", "broker-a", "absent"), 4, "has no setting absent"),
        (("config", "set", "broker-a", "absent=1"), 4, "has no setting absent; see: roquet"),
        (("config", "set", "broker-a", "absent"), 2, "'absent' is not NAME=VALUE"),
        (("config", "set", "broker-a", "storePathRootDir=x"), 1, "; set it in the config file"),
    ],
)
def test_what_cannot_be_done(
    at: Shop, words: tuple[str, ...], exit_code: int, complaint: str
) -> None:
    finished = roquet("broker", *words)
    assert (finished.exit_code, finished.stdout) == (exit_code, "")
    assert complaint in finished.stderr


def test_writes_are_forbidden_and_allowed(at: Shop) -> None:
    def permission() -> Permission:
        routes = {each.broker_name: each for each in at.admin.topic_route("orders")}
        return routes["broker-b"].permission

    forbidden = roquet("broker", "writes", "forbid", "broker-b")
    assert forbidden.exit_code == 0, forbidden.stderr
    assert [line.split() for line in forbidden.stdout.splitlines()][:2] == [
        ["broker", "broker-b"],
        ["writes", "forbidden"],
    ]
    assert permission() == Permission.READ
    assert roquet("broker", "writes", "allow", "broker-b").exit_code == 0
    assert permission() == Permission.READ | Permission.WRITE


@pytest.mark.slow
def test_forbidden_writes_stay_so_when_topics_are_created_and_after_a_restart(
    tmp_path: Path,
) -> None:
    def shown() -> tuple[str, Permission]:
        with Admin(names.address) as admin:
            (broker,) = admin.brokers()
            (route,) = admin.topic_route("orders")
        return broker.writes or "", route.permission

    with OurNameServer(tmp_path / "names") as names:
        with OurBroker(tmp_path / "broker", names.address):
            commands = (
                "topic create orders",
                "broker writes forbid our-broker",
                "topic create more",
            )
            for words in commands:
                assert roquet(*words.split(), "-n", names.address).exit_code == 0
            assert shown() == ("forbidden", Permission.READ)
        with OurBroker(tmp_path / "broker", names.address):
            wait_until(lambda: shown() == ("forbidden", Permission.READ))
            listed = json.loads(roquet("cluster", "-n", names.address, "--json").stdout)
            assert [each["writes"] for each in listed["brokers"]] == ["forbidden"]
            allowed = roquet("broker", "writes", "allow", "our-broker", "-n", names.address)
            assert allowed.exit_code == 0, allowed.stderr
            assert shown() == ("allowed", Permission.READ | Permission.WRITE)
