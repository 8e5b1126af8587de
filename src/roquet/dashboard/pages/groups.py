"""Groups: a list, one group with its members and queues, moving and pausing it."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from aiohttp import web

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.doctor.groups import of_members
from roquet.client.admin.groups import GroupSettings, MemberInfo, MemberSilent
from roquet.client.admin.resets import ResetPlan, ResetTarget
from roquet.client.errors import ClientError
from roquet.client.group.start_offset import StartFrom
from roquet.dashboard.errors import BadInput
from roquet.dashboard.finding_texts import finding_text
from roquet.dashboard.pages.changes import change, field, moment_of_field, taken_plan
from roquet.dashboard.pages.members import matrix_of, members_of
from roquet.dashboard.pages.rendering import DASHBOARD, Listing, language_of, link, page, subject_of
from roquet.dashboard.pages.sharing import shared
from roquet.dashboard.snapshot import Snapshot
from roquet.dashboard.web.guard import SESSION


@dataclass(frozen=True, slots=True)
class GroupRow:
    """Of the list. What is not known yet is None."""

    name: str
    lag: int | None
    behind: timedelta | None
    rate: float | None
    members: int | None
    topics: int
    dead: int
    retries: int | None
    is_paused: bool


def group_rows(snapshot: Snapshot) -> list[GroupRow]:
    rows = []
    for group, settings in snapshot.groups.items():
        details, progress = snapshot.group_details.get(group), snapshot.progress_of(group)
        queues = () if progress is None else progress.queues
        dead, retries = snapshot.dead.get(group), snapshot.waiting.retries_of(group)
        rows.append(
            GroupRow(
                group,
                None if progress is None else progress.lag,
                None if progress is None else progress.time_lag,
                None if details is None else details.rate,
                None if details is None else len(details.members.connections),
                len({each.queue.topic for each in queues if each.queue.topic[0] != "%"}),
                0 if dead is None else dead.message_count,
                None if retries is None else retries.count,
                is_paused(settings),
            )
        )
    return rows


def is_paused(settings: Mapping[str, GroupSettings]) -> bool:
    """At one broker at least, its members get nothing."""
    return any(not each.is_enabled for each in settings.values())


_COLUMNS: Final = {
    "name": lambda row: row.name,
    "lag": lambda row: row.lag,
    "behind": lambda row: row.behind,
    "rate": lambda row: row.rate,
    "members": lambda row: row.members,
    "dead": lambda row: row.dead,
    "retries": lambda row: row.retries,
}


async def groups(request: web.Request) -> web.Response:
    snapshot = request.app[DASHBOARD].poller.snapshot
    rows = [] if snapshot is None else group_rows(snapshot)
    return page(request, "groups.html", listing=Listing(request.query, rows, _COLUMNS, "-lag"))


async def group(request: web.Request) -> web.Response:
    """With the stack of one member, if it is wanted."""
    subject = subject_of(request, "group")
    name, admin, details = subject.name, subject.admin, subject.details
    progress, connected, settings, waiting = await asyncio.gather(
        admin.progress(name),
        admin.members(name),
        admin.group_settings(name),
        admin.waiting_messages(),
    )
    infos = await _infos(admin, name, request.query.get("stack"))
    members = members_of(connected.connections, infos)
    reported = {each.client.client_id: each.info for each in members if each.info is not None}
    dead = None if subject.snapshot is None else subject.snapshot.dead.get(name)
    return page(
        request,
        "group.html",
        name=name,
        progress=progress,
        connected=connected,
        members=members,
        matrix=matrix_of(progress.queues, members, connected.message_model),
        mismatches=[
            finding_text(language_of(request), each.text) for each in of_members(name, reported)
        ],
        settings=settings,
        is_paused=is_paused(settings),
        retries=waiting.retries_of(name),
        in_flight=waiting.in_flight.get(name),
        dead_count=0 if dead is None else dead.message_count,
        rate=None if details is None else details.rate,
        topics=sorted(
            {each.queue.topic for each in progress.queues if not each.queue.topic.startswith("%")}
        ),
        missing=admin.missing,
    )


async def _infos(
    admin: AsyncAdmin, name: str, with_stack_of: str | None
) -> dict[str, MemberInfo | MemberSilent]:
    """What members report; a stack costs its member a moment, so only one is asked for it."""
    infos = await admin.running_infos(name)
    if with_stack_of in infos:
        try:
            infos[with_stack_of] = await admin.running_info(name, with_stack_of, with_stacks=True)
        except ClientError as error:
            infos[with_stack_of] = MemberSilent(str(error))
    return infos


async def preview_reset(request: web.Request) -> web.Response:
    """What a reset would do; nothing is changed. The plan that is shown is the one applied."""
    name = request.match_info["group"]
    topic = await field(request, "topic")
    to = target_of(
        await field(request, "to"),
        await field(request, "moment", is_needed=False),
        await field(request, "offset", is_needed=False),
    )
    plan = await request.app[DASHBOARD].admin.plan_reset(name, topic, to)
    key = request[SESSION].plans.put(plan)
    return page(request, "reset.html", is_live=False, name=name, plan=plan, key=key)


def target_of(to: str, moment: str, offset: str) -> ResetTarget:
    """Raises BadInput. A moment is in UTC, as a script of the page has translated it."""
    match to:
        case "first":
            return StartFrom.FIRST
        case "last":
            return StartFrom.LAST
        case "offset" if offset.isascii() and offset.isdigit() and len(offset) < 19:
            return int(offset)
        case "time":
            if (found := moment_of_field(moment)) is not None:
                return found
    raise BadInput("a reset goes to the first or last message, to a time, or to an offset")


async def apply_reset(request: web.Request) -> web.Response:
    admin, name = request.app[DASHBOARD].admin, request.match_info["group"]
    plan = await taken_plan(request, ResetPlan)

    async def act() -> str:
        if plan is None or plan.group != name:
            raise BadInput("the preview is too old: make a new one")
        await admin.apply_reset(plan)
        return (
            f"Group {name} is moved in topic {plan.topic}: {plan.skipped_count:,} messages are"
            f" skipped, {plan.repeated_count:,} are read again."
        )

    return await change(request, f"reset group {name}: {_plan_text(plan)}", act, _place(name))


def _plan_text(plan: ResetPlan | None) -> str:
    if plan is None:
        return "no plan"
    targets = ", ".join(
        f"{each.queue.broker_name}:{each.queue.queue_id}={each.target}" for each in plan.moves
    )
    return f"topic {plan.topic} to {targets}"


async def pause(request: web.Request) -> web.Response:
    return await _enable(request, is_enabled=False)


async def resume(request: web.Request) -> web.Response:
    return await _enable(request, is_enabled=True)


async def _enable(request: web.Request, *, is_enabled: bool) -> web.Response:
    """At each broker with its own settings otherwise."""
    admin, name = request.app[DASHBOARD].admin, request.match_info["group"]
    verb = "resume" if is_enabled else "pause"

    async def act() -> str:
        found = await admin.group_settings(name)
        if not found:
            raise BadInput(f"no broker has settings of group {name!r}")
        for broker, settings in found.items():
            changed = replace(settings, is_enabled=is_enabled)
            await admin.create_group(name, changed, broker=broker)
        state = "gets messages again" if is_enabled else "gets no more messages"
        return f"Group {name} {state}."

    return await change(request, f"{verb} group {name}", act, _place(name))


def _place(name: str) -> str:
    return link("groups", name)


ROUTES: Final = (
    web.get("/groups", shared(groups)),
    web.get("/groups/{group}", group),
    web.post("/groups/{group}/preview", preview_reset),
    web.post("/groups/{group}/reset", apply_reset),
    web.post("/groups/{group}/pause", pause),
    web.post("/groups/{group}/resume", resume),
)
