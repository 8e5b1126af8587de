"""What is wrong with servers, and what helps: as decisions about answers."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import pytest

from roquet.client.admin.cluster import BrokerInfo, Displacement, DivergentMessages
from roquet.client.admin.doctor import servers
from roquet.client.admin.doctor.finding import Finding, Severity
from roquet.client.admin.missing import LostBroker, MissingBroker
from roquet.client.errors import Unreachable
from roquet.net.errors import MAY_NEED_TLS
from tests.support.doctor_findings import bad

NOW = datetime(2026, 1, 1, tzinfo=UTC)
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


FULL_SOON = "warning: its disk is {}% full: from {}% on it rejects messages"
FULL = "problem: its disk is {}% full: it rejects messages"


@pytest.mark.parametrize(
    ("used_ratio", "settings", "found"),
    [
        (None, {}, []),
        (0.74, {}, []),
        (0.75, {}, [FULL_SOON.format(75, 90)]),
        (0.9, {}, [FULL.format(90)]),
        (0.75, {"diskMaxUsedSpaceRatio": "80"}, []),
        (0.9, {"diskSpaceWarningLevelRatio": "97"}, [FULL_SOON.format(90, 97)]),
        (0.4, {"diskSpaceWarningLevelRatio": "40"}, [FULL.format(40)]),
    ],
)
def test_a_disk_is_full_where_its_broker_says_so(
    used_ratio: float | None, settings: Mapping[str, str], found: list[str]
) -> None:
    assert bad([*servers.of_disk(broker(disk_used_ratio=used_ratio), settings)]) == found


@pytest.mark.parametrize(
    ("members", "found"),
    [
        ({}, []),
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


@pytest.mark.parametrize(
    ("left", "found"),
    [
        (None, []),
        (timedelta(days=31), []),
        (timedelta(days=30), ["warning: its certificate expires at 2026-12-01 00:00:00+00:00"]),
        (timedelta(days=7), ["problem: its certificate expires at 2026-12-01 00:00:00+00:00"]),
        (timedelta(0), ["problem: its certificate expired at 2026-12-01 00:00:00+00:00"]),
    ],
)
def test_a_certificate_is_replaced_in_time(left: timedelta | None, found: list[str]) -> None:
    end = datetime(2026, 12, 1, tzinfo=UTC)
    now = end if left is None else end - left
    expires = None if left is None else end
    assert bad([*servers.of_certificate("broker a", expires, now)]) == found


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


DISPLACED = Displacement(3, "10.0.0.2:10911", 4, NOW)
HISTORY = (
    "10.0.0.1:10911 was the master of epoch 3, until 10.0.0.2:10911 displaced it in epoch 4,"
    " since 2026-01-01 00:00:00+00:00"
)


def test_what_a_switch_left_is_a_warning_until_it_was_sent_again() -> None:
    left = broker(displaced=DISPLACED, divergent=DivergentMessages(1, 7, 5, "/store"))
    (warning,) = [
        each for each in servers.of_brokers([left], REMOTE) if each.severity is Severity.WARNING
    ]
    assert warning.text == (
        "5 messages that no other replica had were cut off its log, and are in 1 files of"
        f" divergent/. {HISTORY}"
    )
    assert warning.remedy is not None
    assert "roquet store divergent /store" in warning.remedy
    done = broker(displaced=DISPLACED, divergent=DivergentMessages(1, 7, 0, "/store"))
    found = [*servers.of_brokers([done], REMOTE)]
    assert bad(found) == []
    assert HISTORY in [each.text for each in found]


def lost(broker_id: int) -> LostBroker:
    return LostBroker("c", "a", broker_id, "10.0.0.9:10911", NOW, "no heartbeat")


@pytest.mark.parametrize(
    ("broker_id", "siblings", "effect"),
    [
        (0, [], "its messages cannot be read, and are missing in all counts and queries"),
        (0, [1], "its slaves deliver messages but accept none"),
        (0, [0], "its messages have a replica less"),
        (1, [0], "its messages have a replica less"),
    ],
)
def test_a_lost_broker_is_a_problem(broker_id: int, siblings: list[int], effect: str) -> None:
    others = [broker(broker_id=each) for each in siblings]
    (text,) = bad([*servers.of_lost([lost(broker_id)], others)])
    assert text.endswith(f"is lost since 2026-01-01 00:00:00+00:00 (no heartbeat): {effect}")


def test_it_is_no_problem_that_name_servers_of_apache_remember_no_broker() -> None:
    (found,) = servers.of_lost(None, [])
    assert found.severity is Severity.FINE
    assert found.text.startswith("unknown")


@pytest.mark.parametrize(
    ("ports", "found"),
    [
        ({"a": {"x": "y"}, "b": {"x": "y"}}, []),
        ({"a": {"grpcPort": "8081"}, "b": {"grpcPort": "8082"}}, []),
        # One that did not answer.
        ({"a": {"grpcPort": "8081"}, "b": {}}, []),
        (
            {"a": {"grpcPort": "8081"}, "b": {"grpcPort": ""}},
            [
                "warning: it has no gRPC endpoint, as a has: SDKs of 5.x do not reach its queues",
            ],
        ),
    ],
)
def test_queues_that_sdks_of_5_do_not_reach(
    ports: dict[str, dict[str, str]], found: list[str]
) -> None:
    assert bad([*servers.of_missing_endpoints(ports)]) == found
