"""Dead letters of groups: looked at, ticked, sent again after a dry run, exported."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec
from aiohttp import web

from roquet.client.admin.dead_letters import LetterPlace, Resent, left_count
from roquet.client.admin.message_texts import message_members
from roquet.client.errors import SomeFailed
from roquet.client.producer.receipt import SendReceipt
from roquet.client.received import ReceivedMessage
from roquet.dashboard.errors import BadInput
from roquet.dashboard.pages.changes import change, taken_plan
from roquet.dashboard.pages.messages import MessageRow, message_row
from roquet.dashboard.pages.rendering import DASHBOARD, link, page
from roquet.dashboard.pages.sharing import shared
from roquet.dashboard.web.guard import SESSION

LETTER_COUNT_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class LetterRow:
    place: str
    row: MessageRow
    resent: Resent | None


@dataclass(frozen=True, slots=True)
class ResendPlan:
    """Dead letters that were shown, and wait for a confirmation."""

    group: str
    letters: tuple[ReceivedMessage, ...]


def place_text(place: LetterPlace) -> str:
    """Of a tick box: "broker-a/0/17"."""
    return f"{place.broker_name}/{place.queue_id}/{place.offset}"


def letter_rows(
    found: Sequence[ReceivedMessage], resent: Mapping[LetterPlace, Resent]
) -> list[LetterRow]:
    return [
        LetterRow(place_text(place), message_row(each), resent.get(place))
        for each in found
        for place in [LetterPlace.of(each)]
    ]


def chosen(found: Sequence[ReceivedMessage], ticked: Sequence[str]) -> list[ReceivedMessage]:
    """Raises BadInput if nothing is ticked, or what is ticked has expired."""
    by_place = {place_text(LetterPlace.of(each)): each for each in found}
    if not ticked:
        raise BadInput("tick the dead letters to send again")
    if missing := [each for each in ticked if each not in by_place]:
        raise BadInput(f"dead letter {missing[0]!r} is not there any more: reload the page")
    return [by_place[each] for each in ticked]


async def groups(request: web.Request) -> web.Response:
    snapshot = request.app[DASHBOARD].poller.snapshot
    dead = {} if snapshot is None else snapshot.dead
    return page(request, "dead_letter_groups.html", dead=dict(sorted(dead.items())))


async def letters(request: web.Request) -> web.Response:
    group = request.match_info["group"]
    admin = request.app[DASHBOARD].admin.partial()
    found = await admin.dead_letters(group, count_max=LETTER_COUNT_MAX)
    resent = await admin.resent(group)
    statistics = (await admin.dead_letter_counts()).get(group)
    return page(
        request,
        "dead_letters.html",
        group=group,
        rows=letter_rows(found, resent),
        total=0 if statistics is None else statistics.message_count,
        left=0 if statistics is None else left_count(statistics, resent),
        missing=admin.missing,
    )


async def preview(request: web.Request) -> web.Response:
    """Which messages would be sent, and where; nothing is sent."""
    group = request.match_info["group"]
    ticked = [str(each) for each in (await request.post()).getall("letter", [])]
    found = await request.app[DASHBOARD].admin.dead_letters(group, count_max=LETTER_COUNT_MAX)
    letters_chosen = chosen(found, ticked)
    key = request[SESSION].plans.put(ResendPlan(group, tuple(letters_chosen)))
    return page(
        request,
        "resend.html",
        is_live=False,
        group=group,
        rows=list(map(message_row, letters_chosen)),
        key=key,
    )


async def resend(request: web.Request) -> web.Response:
    admin, group = request.app[DASHBOARD].admin, request.match_info["group"]
    plan = await taken_plan(request, ResendPlan)

    async def act() -> str:
        if plan is None or plan.group != group:
            raise BadInput("the preview is too old: tick them again")
        try:
            receipts = await admin.resend(plan.letters)
        except SomeFailed as failed:
            sent = sum(isinstance(each, SendReceipt) for each in failed.outcomes)
            raise BadInput(f"{sent} of {len(plan.letters)} were sent again: {failed}") from None
        return f"{len(receipts)} dead letters of group {group} were sent again."

    ids = " ".join(each.message_id for each in plan.letters) if plan is not None else ""
    what = f"resend dead letters of group {group}: {ids}"
    return await change(request, what, act, link("dead-letters", group))


async def export(request: web.Request) -> web.StreamResponse:
    """All of them, one JSON object a line."""
    group = request.match_info["group"]
    response = web.StreamResponse(
        headers={
            "Content-Type": "application/x-ndjson",
            "Content-Disposition": 'attachment; filename="dead-letters.jsonl"',
        }
    )
    await response.prepare(request)
    async for letter in request.app[DASHBOARD].admin.each_dead_letter(group):
        await response.write(msgspec.json.encode(message_members(letter)) + b"\n")
    return response


ROUTES: Final = (
    web.get("/dead-letters", shared(groups)),
    web.get("/dead-letters/{group}", letters),
    web.get("/dead-letters/{group}/export", export),
    web.post("/dead-letters/{group}/preview", preview),
    web.post("/dead-letters/{group}/resend", resend),
)
