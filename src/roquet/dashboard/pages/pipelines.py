"""Pipelines: queries that commit their offsets, and lakes, with what each has left to read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from aiohttp import web

from roquet.client.admin.progress import GroupProgress
from roquet.dashboard.pages.rendering import DASHBOARD, page
from roquet.dashboard.pages.sharing import shared
from roquet.dashboard.pipelines import (
    Batch,
    LakeQueue,
    LakeState,
    commits_without_members,
    lake_queues,
)
from roquet.dashboard.snapshot import Snapshot

# Of a lake, on a page.
QUEUES_SHOWN_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class QueryRow:
    """A group that commits without members. What is not known is None."""

    name: str
    topics: tuple[str, ...]
    lag: int | None
    behind: timedelta | None
    rate: float | None
    # The newest message that it has read was stored then.
    last_taken: datetime | None
    batch: Batch | None


@dataclass(frozen=True, slots=True)
class LakeRow:
    state: LakeState
    lag: int | None
    queues: Sequence[LakeQueue]
    is_cut: bool


def query_rows(snapshot: Snapshot, batches: Mapping[str, Batch]) -> list[QueryRow]:
    """The one with the largest lag comes first."""
    rows = [
        _query_row(snapshot, progress, batches.get(group))
        for group, progress in commits_without_members(snapshot).items()
    ]
    return sorted(rows, key=lambda row: (-(row.lag or 0), row.name))


def _query_row(snapshot: Snapshot, progress: GroupProgress, batch: Batch | None) -> QueryRow:
    details = snapshot.group_details.get(progress.group)
    topics = {each.queue.topic for each in progress.queues} - {""}
    times = [each.last_taken for each in progress.queues if each.last_taken is not None]
    return QueryRow(
        progress.group,
        tuple(sorted(each for each in topics if not each.startswith("%"))),
        progress.lag,
        progress.time_lag,
        None if details is None else details.rate,
        max(times, default=None),
        batch,
    )


def lake_row(state: LakeState, snapshot: Snapshot | None) -> LakeRow:
    samples = {} if snapshot is None else snapshot.topic_samples
    statistics = {topic: each.statistics for topic, each in samples.items()}
    queues = None if state.report is None else lake_queues(state.report, statistics)
    if queues is None:
        return LakeRow(state, None, (), is_cut=False)
    lag = sum(each.lag for each in queues)
    worst = sorted(queues, key=lambda each: (-each.lag, each.queue))
    is_cut = len(worst) > QUEUES_SHOWN_MAX
    return LakeRow(state, lag, worst[:QUEUES_SHOWN_MAX], is_cut=is_cut)


async def pipelines(request: web.Request) -> web.Response:
    dashboard = request.app[DASHBOARD]
    poller, snapshot = dashboard.poller, dashboard.poller.snapshot
    return page(
        request,
        "pipelines.html",
        queries=[] if snapshot is None else query_rows(snapshot, poller.batches.batches),
        lakes=[lake_row(each, snapshot) for each in dashboard.lakes.states],
    )


ROUTES: Final = (web.get("/pipelines", shared(pipelines)),)
