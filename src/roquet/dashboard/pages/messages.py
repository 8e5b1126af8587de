"""Messages: found by topic, time, key or id; one message with its body and its story."""

from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiohttp import web

from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.deliveries import Deliveries, DeliveryState
from roquet.client.admin.inspection import ReplicationStatus
from roquet.client.admin.message_texts import body_text, stored_body
from roquet.client.admin.messages import TraceEvent
from roquet.client.errors import ClientError
from roquet.client.received import ReceivedMessage
from roquet.dashboard.bodies import shown_body
from roquet.dashboard.pages.changes import moment_of_field
from roquet.dashboard.pages.rendering import DASHBOARD, link, page

MESSAGE_COUNT_MAX: Final = 100
# Of each queue, of a topic that is looked at without further wishes.
_LAST_COUNT: Final = 20
_LINE_LENGTH_MAX: Final = 160
# How a state looks in the story of a message.
_LOOKS: Final = {
    DeliveryState.CONSUMED: "good",
    DeliveryState.DEAD_LETTER: "bad",
    DeliveryState.WAITS_FOR_RETRY: "warn",
    DeliveryState.WAITING: "warn",
    DeliveryState.BROKER_NOT_ASKED: "warn",
}


@dataclass(frozen=True, slots=True)
class MessageRow:
    message: ReceivedMessage
    size: int
    line: str


@dataclass(frozen=True, slots=True)
class StoryStep:
    """What happened to a message, or is going to."""

    what: str
    # "good", "warn", "bad" or blank.
    look: str = ""
    time: datetime | None = None
    group: str | None = None
    note: str = ""


def story_of(
    message: ReceivedMessage,
    deliveries: Deliveries,
    trace: Sequence[TraceEvent],
    replicated: StoryStep | None = None,
) -> list[StoryStep]:
    """Sent, stored, replicated, what clients have traced, and what became of it in each group."""
    steps = [
        StoryStep("sent", "good", message.born, note=str(message.record.born_address)),
        StoryStep(
            "stored",
            "good",
            message.stored,
            note=f"{message.queue.broker_name}, queue {message.queue.queue_id},"
            f" offset {message.queue_offset}",
        ),
    ]
    if replicated is not None:
        steps.append(replicated)
    steps += [
        StoryStep(
            each.event,
            "bad" if each.event == "dead letter" or each.outcome == "failed" else "",
            each.time,
            each.group,
            ", ".join(filter(None, (each.outcome, each.client))),
        )
        for each in trace
        if each.event != "sent"
    ]
    steps += [
        StoryStep(
            each.state.value,
            _LOOKS.get(each.state, ""),
            each.until,
            each.group,
            ", ".join(filter(None, (f"retry {each.retry}" if each.retry else None, each.note))),
        )
        for each in deliveries.groups
    ]
    return steps


def replicated_step(end: int, slave_count: int, status: ReplicationStatus | None) -> StoryStep:
    """Whether the slaves of its broker have confirmed the log up to the end of its record."""
    if status is None:
        return StoryStep(
            "replicated", note="not known: its broker does not report how far slaves are"
        )
    has_it = [each for each in status.slaves if each.acknowledged_offset >= end]
    looks = "good" if len(has_it) >= slave_count else "warn"
    names = ", ".join(filter(None, (each.address for each in has_it)))
    note = f"{len(has_it)} of {slave_count} slaves have confirmed it"
    return StoryStep("replicated", looks, note=f"{note}: {names}" if names else note)


async def messages(request: web.Request) -> web.Response:
    dashboard, query = request.app[DASHBOARD], request.query
    topic, key, message_id = (query.get(name, "").strip() for name in ("topic", "key", "id"))
    if topic and message_id:
        raise web.HTTPSeeOther(link("messages", topic, message_id))
    begin, end = (moment_of_field(query.get(name, "")) for name in ("from", "to"))
    admin = dashboard.admin.partial()
    found: list[ReceivedMessage] = []
    if topic and key:
        found = await admin.messages_by_key(
            topic, key, begin=begin, end=end, count_max=MESSAGE_COUNT_MAX
        )
    elif topic and (begin or end):
        found = await admin.messages_between(
            topic, begin=begin, end=end, count_max=MESSAGE_COUNT_MAX
        )
    elif topic:
        found = await _last(admin, topic)
    return page(
        request,
        "messages.html",
        is_live=False,
        topics=[] if dashboard.poller.snapshot is None else list(dashboard.poller.snapshot.topics),
        topic=topic,
        key=key,
        begin=query.get("from", ""),
        end=query.get("to", ""),
        rows=list(map(message_row, found)),
        is_cut=len(found) == MESSAGE_COUNT_MAX,
        missing=admin.missing,
    )


def message_row(message: ReceivedMessage) -> MessageRow:
    return MessageRow(message, len(stored_body(message)), body_text(message, _LINE_LENGTH_MAX))


async def _last(admin: AsyncAdmin, topic: str) -> list[ReceivedMessage]:
    """The newest of all queues, the newest first."""
    statistics = await admin.topic_statistics(topic)
    starts = {
        each.queue: max(each.min_offset, each.max_offset - _LAST_COUNT)
        for each in statistics.queues
    }
    ends = {each.queue: each.max_offset for each in statistics.queues}
    async with aclosing(admin.follow(topic, starts, ends=ends)) as following:
        found = [each async for each in following]
    found.sort(key=lambda each: (each.stored, each.queue_offset), reverse=True)
    return found[:MESSAGE_COUNT_MAX]


async def message(request: web.Request) -> web.Response:
    admin = request.app[DASHBOARD].admin.partial()
    topic, message_id = request.match_info["topic"], request.match_info["id"]
    found = await admin.message(topic, message_id)
    deliveries = await admin.deliveries(found)
    trace = await admin.trace(found.message_id)
    replicated = await _replicated(request, admin, found)
    return page(
        request,
        "message.html",
        is_live=False,
        topic=topic,
        message=found,
        body=shown_body(stored_body(found), request.query.get("view")),
        story=story_of(found, deliveries, trace, replicated),
        not_asked=deliveries.not_asked,
    )


async def _replicated(
    request: web.Request, admin: AsyncAdmin, message: ReceivedMessage
) -> StoryStep | None:
    """None if its broker has no slaves, as far as the last poll knows."""
    snapshot = request.app[DASHBOARD].poller.snapshot
    known = () if snapshot is None else snapshot.brokers
    brokers = [each for each in known if each.broker_name == message.queue.broker_name]
    master = next((each for each in brokers if each.is_master), None)
    if len(brokers) < 2 or master is None:
        return None
    try:
        status = await admin.replication_status(master.address)
    except ClientError:
        status = None  # Brokers before 5.x cannot be asked.
    end = message.record.physical_offset + message.size
    return replicated_step(end, len(brokers) - 1, status)


async def body(request: web.Request) -> web.Response:
    """As a file: a browser must not run a body."""
    topic, message_id = request.match_info["topic"], request.match_info["id"]
    found = await request.app[DASHBOARD].admin.partial().message(topic, message_id)
    return web.Response(
        body=stored_body(found),
        content_type="application/octet-stream",
        headers={"Content-Disposition": 'attachment; filename="body.bin"'},
    )


ROUTES: Final = (
    web.get("/messages", messages),
    web.get("/messages/{topic}/{id}", message),
    web.get("/messages/{topic}/{id}/body", body),
)
