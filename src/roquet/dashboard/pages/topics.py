"""Topics: a list, one topic with its queues, and what changes it."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiohttp import web

from roquet.client.admin.topics import QueueStatistics, TopicSettings
from roquet.client.errors import RequestRefused
from roquet.dashboard.errors import BadInput
from roquet.dashboard.pages.changes import change, field, flag, number
from roquet.dashboard.pages.rendering import DASHBOARD, Listing, link, page, subject_of
from roquet.dashboard.pages.sharing import shared
from roquet.dashboard.snapshot import Snapshot
from roquet.protocol.codes import Permission
from roquet.protocol.messages.message import Message

QUEUE_COUNT_MAX: Final = 1024
# Of 5.x, and of our brokers; a topic without it takes all kinds of messages.
_TYPE_ATTRIBUTE: Final = "message.type"
_PERMISSIONS: Final = {
    "rw": Permission.READ | Permission.WRITE,
    "r": Permission.READ,
    "w": Permission.WRITE,
}
# Queues with this many times the messages of an average one are worth a look.
_SKEW: Final = 2.0
_SKEW_COUNT_MIN: Final = 100


@dataclass(frozen=True, slots=True)
class TopicRow:
    """Of the list. What is not known yet is None."""

    name: str
    kind: str
    rate: float | None
    messages: int | None
    lag: int | None
    worst_group: str | None
    queues: int | None
    last_stored: datetime | None
    size: int | None
    oldest: datetime | None


def topic_rows(snapshot: Snapshot) -> list[TopicRow]:
    worst = _worst_groups(snapshot)
    rows = []
    for topic, settings in snapshot.topics.items():
        sample = snapshot.topic_samples.get(topic)
        lag, group = worst.get(topic, (None, None))
        rows.append(
            TopicRow(
                topic,
                kind_of(list(settings.values())),
                None if sample is None else sample.rate,
                None if sample is None else sample.statistics.message_count,
                lag,
                group,
                None if sample is None else len(sample.statistics.queues),
                None if sample is None else sample.statistics.last_stored,
                snapshot.size_of(topic),
                snapshot.oldest_of(topic),
            )
        )
    return rows


def _worst_groups(snapshot: Snapshot) -> dict[str, tuple[int | None, str | None]]:
    """The largest lag of each topic, and the group that has it."""
    lags: Counter[tuple[str, str]] = Counter()
    for group in snapshot.groups:
        progress = snapshot.progress_of(group)
        for each in () if progress is None else progress.queues:
            lags[each.queue.topic, group] += each.lag or 0
    return {
        topic: (lag, group)
        for (topic, group), lag in sorted(lags.items(), key=lambda item: item[1])
    }


def kind_of(settings: Sequence[TopicSettings]) -> str:
    """The type of its messages, as far as its brokers have one."""
    kinds = {each.attributes.get(_TYPE_ATTRIBUTE, "") for each in settings} - {""}
    if kinds:
        return ", ".join(sorted(kinds)).lower()
    return "ordered" if any(each.is_ordered for each in settings) else "normal"


def skewed(queues: Sequence[QueueStatistics]) -> list[QueueStatistics]:
    """Queues with far more messages than an average one."""
    total = sum(each.message_count for each in queues)
    if len(queues) < 2 or total < _SKEW_COUNT_MIN:
        return []
    return [each for each in queues if each.message_count > _SKEW * total / len(queues)]


_COLUMNS: Final = {
    "name": lambda row: row.name,
    "kind": lambda row: row.kind,
    "rate": lambda row: row.rate,
    "messages": lambda row: row.messages,
    "lag": lambda row: row.lag,
    "queues": lambda row: row.queues,
    "stored": lambda row: row.last_stored,
    "size": lambda row: row.size,
    "oldest": lambda row: row.oldest,
}


async def topics(request: web.Request) -> web.Response:
    snapshot = request.app[DASHBOARD].poller.snapshot
    rows = [] if snapshot is None else topic_rows(snapshot)
    return page(request, "topics.html", listing=Listing(request.query, rows, _COLUMNS, "name"))


async def topic(request: web.Request) -> web.Response:
    subject = subject_of(request, "topic")
    name, admin, sample = subject.name, subject.admin, subject.sample
    statistics, settings, groups = await asyncio.gather(
        admin.topic_statistics(name), admin.topic_settings(name), admin.topic_groups(name)
    )
    try:
        producers = await admin.producers(topic=name)
    except RequestRefused:
        producers = None  # Brokers before 4.9.5 cannot be asked.
    first = await admin.first_stored(name)
    return page(
        request,
        "topic.html",
        name=name,
        statistics=statistics,
        settings=settings,
        kind=kind_of(list(settings.values())),
        rate=None if sample is None else sample.rate,
        size=None if subject.snapshot is None else subject.snapshot.size_of(name),
        first=first,
        oldest=min(first.values(), default=None),
        skewed={each.queue for each in skewed(statistics.queues)},
        groups=groups,
        producers=producers,
        missing=admin.missing,
        permissions=_PERMISSIONS,
    )


async def create(request: web.Request) -> web.Response:
    admin = request.app[DASHBOARD].admin
    name = await field(request, "name")
    settings = await _settings(request, TopicSettings())

    async def act() -> str:
        # The same request changes an existing one, which a form for new ones must not.
        if name in await admin.topics(with_internal=True):
            raise BadInput(f"topic {name!r} exists already")
        await admin.create_topic(name, settings)
        return f"Topic {name} is created."

    return await change(request, f"create topic {name}", act, link("topics"), link("topics", name))


async def change_settings(request: web.Request) -> web.Response:
    admin, name = request.app[DASHBOARD].admin, request.match_info["topic"]

    async def act() -> str:
        for broker, before in (await admin.topic_settings(name)).items():
            await admin.create_topic(name, await _settings(request, before), broker=broker)
        return f"Topic {name} is changed."

    return await change(request, f"change settings of topic {name}", act, link("topics", name))


async def delete(request: web.Request) -> web.Response:
    admin, name = request.app[DASHBOARD].admin, request.match_info["topic"]

    async def act() -> str:
        if await field(request, "confirm") != name:
            raise BadInput(f"type {name} to confirm that it is deleted with all its messages")
        await admin.delete_topic(name)
        return f"Topic {name} is deleted."

    what = f"delete topic {name}"
    return await change(request, what, act, link("topics", name), link("topics"))


async def send(request: web.Request) -> web.Response:
    admin, name = request.app[DASHBOARD].admin, request.match_info["topic"]
    keys = (await field(request, "keys", is_needed=False)).split()
    tags = await field(request, "tags", is_needed=False)
    form = await request.post()
    body = str(form.get("body", "")).replace("\r\n", "\n").encode(errors="surrogateescape")

    async def act() -> str:
        receipt = await admin.send(Message(name, body, tags or None, tuple(keys)))
        return f"Message {receipt.message_id} is sent to {name}, queue {receipt.queue.queue_id}."

    return await change(request, f"send a message to topic {name}", act, link("topics", name))


async def _settings(request: web.Request, before: TopicSettings) -> TopicSettings:
    permission = await field(request, "permission")
    if permission not in _PERMISSIONS:
        raise BadInput(f"permission must be one of {', '.join(_PERMISSIONS)}, not {permission!r}")
    return TopicSettings(
        read_queue_count=await number(request, "read_queues", 1, QUEUE_COUNT_MAX),
        write_queue_count=await number(request, "write_queues", 1, QUEUE_COUNT_MAX),
        permission=_PERMISSIONS[permission],
        is_ordered=await flag(request, "ordered"),
        attributes=before.attributes,
    )


ROUTES: Final = (
    web.get("/topics", shared(topics)),
    web.post("/topics", create),
    web.get("/topics/{topic}", topic),
    web.post("/topics/{topic}/change", change_settings),
    web.post("/topics/{topic}/delete", delete),
    web.post("/topics/{topic}/send", send),
)
