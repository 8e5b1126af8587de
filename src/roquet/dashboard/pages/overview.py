"""The overview: the cluster drawn, its rates, its disks, and what the doctor has found."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from urllib.parse import quote

from aiohttp import web

from roquet.client.admin.cluster import BrokerInfo
from roquet.client.admin.doctor.finding import Line, Severity
from roquet.client.admin.missing import LostBroker
from roquet.dashboard.finding_texts import finding_remedy, finding_subject, finding_text
from roquet.dashboard.history import History, SeriesKey, full_at
from roquet.dashboard.pages.rendering import DASHBOARD, page
from roquet.dashboard.pages.sharing import shared
from roquet.dashboard.snapshot import Snapshot

# Apache's brokers refuse messages at this usage of the disk, and ours do unless they are set up
# otherwise.
_DISK_LIMIT: Final = 0.9
_DAY_S: Final = 86400.0
# By the first word of the subject of a finding.
_PLACES: Final = {
    "topic": "/topics/",
    "topics": "/topics",
    "group": "/groups/",
    "groups": "/groups",
}


@dataclass(frozen=True, slots=True)
class BrokerSet:
    """The brokers of one name: its master, its slaves, and those that were lost."""

    cluster: str
    name: str
    brokers: tuple[BrokerInfo, ...]
    lost: tuple[LostBroker, ...]
    # When its disk will be full, by address, at the pace of the last day.
    full: Mapping[str, datetime]

    @property
    def has_master(self) -> bool:
        return any(each.is_master and each.error is None for each in self.brokers)


@dataclass(frozen=True, slots=True)
class FindingRow:
    line: Line
    # Where to look at it.
    link: str | None

    def subject(self, language: str) -> str:
        return finding_subject(language, self.line.subject)

    def text(self, language: str) -> str:
        return finding_text(language, self.line.text)

    def remedy(self, language: str) -> str:
        return finding_remedy(language, self.line.remedy or "")


def broker_sets(snapshot: Snapshot, history: History) -> list[BrokerSet]:
    lost = snapshot.lost or ()
    names = {(each.cluster, each.broker_name) for each in snapshot.brokers}
    names |= {(each.cluster, each.broker_name) for each in lost}
    since_s = snapshot.taken.timestamp() - _DAY_S
    sets = []
    for cluster, name in sorted(names):
        brokers = tuple(each for each in snapshot.brokers if each.broker_name == name)
        full = {
            each.address: moment
            for each in brokers
            if (
                moment := full_at(
                    history.points(SeriesKey("broker", each.address, "disk"), since_s), _DISK_LIMIT
                )
            )
            is not None
        }
        gone = tuple(each for each in lost if each.broker_name == name)
        sets.append(BrokerSet(cluster, name, brokers, gone, full))
    return sets


def finding_rows(lines: Sequence[Line]) -> list[FindingRow]:
    """What is wrong; what is fine is not worth a line."""
    return [
        FindingRow(each, place_of(each.subject))
        for each in lines
        if each.severity is not Severity.FINE
    ]


def place_of(subject: str) -> str | None:
    """The page of "topic orders" or "3 groups"."""
    kind, _, name = subject.partition(" ")
    if kind.isdigit() or kind.replace(",", "").isdigit():
        return _PLACES.get(name)
    if kind == "broker":
        return "/brokers"
    place = _PLACES.get(kind)
    return None if place is None else place + quote(name, safe="")


async def overview(request: web.Request) -> web.Response:
    dashboard = request.app[DASHBOARD]
    poller = dashboard.poller
    snapshot, examination = poller.snapshot, poller.examination
    return page(
        request,
        "overview.html",
        sets=[] if snapshot is None else broker_sets(snapshot, poller.history),
        findings=None if examination is None else finding_rows(examination.lines),
        examined=None if examination is None else examination.taken,
    )


ROUTES: Final = (web.get("/", shared(overview)),)
