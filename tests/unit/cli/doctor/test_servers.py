"""What is wrong with servers, and what helps: as decisions about answers."""

from datetime import timedelta

import pytest

from roquet.cli.doctor import servers
from roquet.cli.doctor.finding import Finding, Severity
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.missing import MissingBroker
from roquet.client.errors import Unreachable
from roquet.net.errors import MAY_NEED_TLS
from tests.support.doctor_findings import bad

REMOTE = ["10.0.0.9:9876"]


def test_a_name_server_that_is_gone_is_a_problem_if_it_is_the_only_one() -> None:
    assert bad([*servers.of_name_servers({"a:1": "refused"})]) == ["problem: unreachable: refused"]
    assert bad([*servers.of_name_servers({"a:1": "refused", "b:1": None})]) == [
        "warning: unreachable: refused"
    ]


def test_without_brokers_nothing_goes() -> None:
    assert bad([*servers.of_brokers([], REMOTE)]) == ["problem: no broker is registered"]


def broker(**members: object) -> BrokerInfo:
    values: dict[str, object] = {
        "cluster": "c",
        "broker_name": "a",
        "broker_id": 0,
        "address": "10.0.0.1:10911",
        **members,
    }
    return BrokerInfo(**values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({}, []),
        ({"disk_used_ratio": 0.74}, []),
        (
            {"disk_used_ratio": 0.75},
            ["warning: its disk is 75% full: old messages are deleted early"],
        ),
        ({"disk_used_ratio": 0.9}, ["problem: its disk is 90% full: it rejects messages"]),
        ({"clock_difference": timedelta(seconds=5)}, []),
        (
            {"clock_difference": timedelta(seconds=61)},
            [
                (
                    "warning: its clock is 61 s ahead of the local one: "
                    "delays and resets by time are off by as much"
                )
            ],
        ),
        ({"error": "gone"}, ["problem: gone"]),
        (
            {"address": "127.0.0.1:10911"},
            [
                (
                    "problem: advertises 127.0.0.1:10911, a loopback address: clients elsewhere"
                    " cannot connect"
                )
            ],
        ),
        (
            {"broker_id": 1},
            ["problem: has no master: it delivers messages but accepts none"],
        ),
    ],
)
def test_problems_of_a_broker(members: dict[str, object], found: list[str]) -> None:
    assert bad([*servers.of_brokers([broker(**members)], REMOTE)]) == found


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        ("refused", "start it, or advertise a reachable address"),
        (f"closed by the peer: {MAY_NEED_TLS}", "use --tls"),
        ("AclException: Need admin permission", "an administrator grants it"),
    ],
)
def test_the_remedy_of_a_broker_fits_its_error(error: str, remedy: str) -> None:
    (found,) = servers.of_brokers([broker(error=error)], REMOTE)
    assert remedy in (found.remedy or "")


def test_a_broker_that_fails_later_is_a_problem_too() -> None:
    late = MissingBroker("b", "b:1", Unreachable("b:1", "hangs"))
    known = Finding(Severity.PROBLEM, "broker a", "hangs", "start it")
    gone = MissingBroker("a", "a:1", Unreachable("a:1", "hangs"))
    (found,) = servers.of_missing([gone, late], [known])
    assert found.subject == "broker b"
    assert found.text == "findings about topics and groups are without it: hangs"


def test_on_one_machine_loopback_is_fine() -> None:
    local = broker(address="127.0.0.1:10911")
    assert bad([*servers.of_brokers([local], ["localhost:9876"])]) == []


def test_a_broker_that_only_gives_is_seen() -> None:
    assert bad([*servers.of_settings("a", {"brokerPermission": "6"})]) == []
    assert len(bad([*servers.of_settings("a", {"brokerPermission": "4"})])) == 1


@pytest.mark.parametrize(
    ("address", "is_loopback"),
    [
        ("127.0.0.1:1", True),
        ("localhost:1", True),
        ("[::1]:1", True),
        ("10.0.0.1:1", False),
        ("host:1", False),
    ],
)
def test_loopback_addresses(address: str, *, is_loopback: bool) -> None:
    assert servers.is_loopback(address) is is_loopback
