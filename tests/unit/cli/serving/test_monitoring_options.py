"""How servers are watched from outside: pages over HTTP, and the form of the log."""

import json
from http import HTTPStatus
from pathlib import Path

import pytest

from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.support.http_asking import page_of
from tests.support.our_cluster import HOST, OurBroker, OurCluster, OurNameServer
from tests.support.ports import free_port
from tests.support.scraped import scraped


def is_ready(address: str) -> bool:
    try:
        return page_of(address, "/ready").status is HTTPStatus.OK
    except OSError:
        return False  # It does not listen yet.


@pytest.mark.slow
def test_a_broker_is_ready_while_a_name_server_knows_it(tmp_path: Path) -> None:
    http = [f"{HOST}:{free_port()}" for _ in range(2)]
    with OurNameServer(tmp_path / "names", "--http", http[0]) as names:
        wait_until(lambda: is_ready(http[0]))
        configuration = {"httpListen": http[1]}
        with OurBroker(tmp_path / "a", names.address, configuration=configuration):
            wait_until(lambda: is_ready(http[1]))
            assert page_of(http[1], "/health").body == b"alive\n"
            found = scraped(page_of(http[0], "/metrics").body)
            assert found.value("roquet_registered_brokers") == 1
            found = scraped(page_of(http[1], "/metrics").body)
            assert found.value("roquet_info", node_type="broker") == 1
    with pytest.raises(OSError, match="refused"):
        page_of(http[0], "/health")


@pytest.mark.slow
def test_all_servers_of_a_cluster_are_on_one_port(tmp_path: Path) -> None:
    with OurCluster(tmp_path, "--brokers", "2", "--http", "0") as cluster:
        address = cluster.ready_line.rpartition(" http=")[2]
        wait_until(lambda: is_ready(address))
        found = scraped(page_of(address, "/metrics").body)
    nodes = {labels["node_id"] for labels, _ in found.values["rocketmq_broker_permission"]}
    assert nodes == {"broker-a", "broker-b"}
    assert found.value("roquet_registered_brokers", node_type="nameserver") == 2


@pytest.mark.slow
def test_the_dashboard_of_a_cluster_is_where_the_ready_line_says(tmp_path: Path) -> None:
    with OurCluster(tmp_path, "--dashboard", "0") as cluster:
        place = cluster.ready_line.rpartition(" dashboard=http://")[2].strip()
        page = page_of(place.removesuffix("/"), "/")
        assert (page.status, b"Overview" in page.body) == (200, True)


@pytest.mark.slow
def test_a_log_in_json_has_an_object_in_each_line(tmp_path: Path) -> None:
    with OurNameServer(tmp_path, "--log", "json"):
        pass
    lines = [json.loads(line) for line in (tmp_path / "server.log").read_text().splitlines()]
    assert {"time", "level", "logger", "message"} <= lines[0].keys()
    assert lines[-1]["message"] == "name server stopped"


@pytest.mark.parametrize("command", ["namesrv", "broker", "up"])
@pytest.mark.parametrize("place", ["here", ":80", "1:99999"])
def test_what_is_no_place_is_refused(command: str, place: str) -> None:
    finished = roquet(command, "--http", place)
    assert finished.exit_code == 2
    assert finished.stderr.endswith(f"argument --http: {place!r} is not HOST:PORT or a port\n")
