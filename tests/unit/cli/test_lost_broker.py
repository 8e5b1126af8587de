"""A broker that is killed does not vanish: what operators see of it, with real processes."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.support.http_asking import page_of
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.ports import free_port
from tests.support.scraped import scraped


class Pair(NamedTuple):
    names: OurNameServer
    survivor: OurBroker
    killed: OurBroker
    metrics: str


# The shortest period that brokers accept.
SOON_REGISTERED = {"registerNameServerPeriod": "10000"}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """Two masters, of which one was killed."""
    metrics = f"127.0.0.1:{free_port()}"
    names = OurNameServer(tmp_path / "names", "--http", metrics)
    with (
        names,
        OurBroker(
            tmp_path / "a", names.address, broker_name="broker-a", configuration=SOON_REGISTERED
        ) as survivor,
        OurBroker(tmp_path / "b", names.address, broker_name="broker-b") as killed,
    ):
        wait_until(lambda: len(shown(names)["brokers"]) == 2)
        killed.kill()
        wait_until(lambda: len(shown(names)["lost"]) == 1)
        yield Pair(names, survivor, killed, metrics)


def shown(names: OurNameServer, *, exit_code: int | None = None) -> Any:
    finished = roquet("cluster", "-n", names.address, "--json")
    assert exit_code in (None, finished.exit_code)
    return json.loads(finished.stdout)


def found(names: OurNameServer) -> list[str]:
    finished = roquet("doctor", "-n", names.address, "--json")
    rows = json.loads(finished.stdout)["findings"]
    problems = [each["finding"] for each in rows if each["severity"] == "problem"]
    assert finished.exit_code == bool(problems)
    return problems


def test_a_killed_broker_is_shown_as_lost_until_it_is_back(pair: Pair) -> None:
    (lost,) = shown(pair.names, exit_code=1)["lost"]
    assert (lost["broker"], lost["role"], lost["address"]) == (
        "broker-b",
        "master",
        pair.killed.address,
    )
    assert lost["lost_since"]
    assert "lost since" in roquet("cluster", "-n", pair.names.address).stdout
    (problem,) = found(pair.names)
    assert f"master at {pair.killed.address} is lost since 20" in problem
    assert "its messages cannot be read" in problem
    pair.killed.start()
    wait_until(lambda: shown(pair.names)["lost"] == [])
    assert found(pair.names) == []
    shown(pair.names, exit_code=0)


def test_a_restarted_name_server_still_knows_lost_brokers(pair: Pair) -> None:
    before = shown(pair.names)["lost"]
    path = pair.names.directory / "namesrv" / "lostBrokers.json"
    wait_until(path.exists)
    pair.names.stop()
    pair.names.start()
    wait_until(lambda: len(shown(pair.names)["brokers"]) == 1, 60)
    # The survivor was connected when the name server stopped, and was never lost.
    assert shown(pair.names, exit_code=1)["lost"] == before


def test_a_lost_broker_is_counted_by_the_name_server(pair: Pair) -> None:
    page = scraped(page_of(pair.metrics, "/metrics").body)
    assert page.value("roquet_lost_brokers", broker_cluster="DefaultCluster") == 1
    assert page.value("roquet_registered_brokers", broker_cluster="DefaultCluster") == 1


def test_an_operator_can_have_a_lost_broker_forgotten(pair: Pair) -> None:
    words = ("-n", pair.names.address)
    wrong = roquet("broker", "forget", pair.survivor.address, *words)
    assert wrong.exit_code == 4
    assert f"is not lost; lost brokers: {pair.killed.address}" in wrong.stderr
    assert roquet("broker", "forget", pair.killed.address, *words).exit_code == 0
    assert shown(pair.names, exit_code=0)["lost"] == []


def test_a_broker_that_was_stopped_is_not_lost(pair: Pair) -> None:
    pair.survivor.stop()
    assert [each["broker"] for each in shown(pair.names)["lost"]] == ["broker-b"]


@pytest.mark.parametrize(
    "words",
    [
        ("cluster",),
        ("doctor",),
        ("topic", "list"),
        ("topic", "list", "--all"),
        ("group", "list"),
        ("dlq", "list"),
    ],
    ids=" ".join,
)
def test_a_cluster_without_brokers_is_no_success(words: tuple[str, ...], empty: str) -> None:
    finished = roquet(*words, "-n", empty)
    assert finished.exit_code in (1, 3)
    assert "is registered" in finished.stdout + finished.stderr


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with OurNameServer(tmp_path_factory.mktemp("names")) as names:
        yield names.address
