"""Where a finding is looked at, and which brokers belong together."""

from datetime import UTC, datetime

import pytest

from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.doctor.finding import Line, Severity
from roquet.client.admin.missing import LostBroker
from roquet.dashboard.history import History, SeriesKey
from roquet.dashboard.pages.overview import broker_sets, finding_rows, place_of
from roquet.dashboard.snapshot import Snapshot

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("subject", "place"),
    [
        ("topic orders", "/topics/orders"),
        ("group %RETRY%x", "/groups/%25RETRY%25x"),
        ("1,200 topics", "/topics"),
        ("3 groups", "/groups"),
        ("broker broker-a", "/brokers"),
        ("waiting messages", None),
    ],
)
def test_a_finding_leads_to_what_it_is_about(subject: str, place: str | None) -> None:
    assert place_of(subject) == place


def test_only_what_is_wrong_is_listed() -> None:
    lines = [Line(severity, 1, "topic t", "text", None) for severity in Severity]
    assert [each.line.severity for each in finding_rows(lines)] == [
        Severity.PROBLEM,
        Severity.WARNING,
    ]


def test_lost_brokers_stand_with_those_of_their_name_and_disks_have_their_day() -> None:
    master = BrokerInfo("c", "a", 0, "10.0.0.1:1", disk_used_ratio=0.5)
    lost = LostBroker("c", "a", 1, "10.0.0.2:1", NOW, "timed out")
    alone = LostBroker("c", "b", 0, "10.0.0.3:1", NOW, "timed out")
    history = History()
    for hour in range(5):
        key = SeriesKey("broker", "10.0.0.1:1", "disk")
        history.add(key, NOW.timestamp() - 4 * 3600 + hour * 3600, 0.5 + hour * 0.01)
    snapshot = Snapshot(NOW, 0.0, brokers=(master,), lost=(lost, alone))
    first, second = broker_sets(snapshot, history)
    assert (first.name, first.has_master, first.lost) == ("a", True, (lost,))
    assert "10.0.0.1:1" in first.full
    assert (second.name, second.has_master, second.brokers) == ("b", False, ())
