"""Requests whose answer takes a while: a save to disk, or a word from another peer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from roquet.broker.broker import Broker
from roquet.broker.messages.durability import Outcome
from roquet.broker.tables.saving import Saver
from roquet.net.router import Parked, Reply, Request
from roquet.protocol.codes import ResponseCode
from roquet.state_file import StateNotSaved

log = logging.getLogger(__name__)


def answer_later(
    broker: Broker, request: Request[Any], work: Callable[[], Awaitable[Reply]]
) -> Parked:
    """Answers with what `work` returns; it has to come to an end by itself."""
    parked = Parked(request)

    async def run() -> None:
        parked.answer(await work())

    broker.services.once(f"request {request.command.code}", run)
    return parked


def answer_when_saved(broker: Broker, request: Request[Any], *savers: Saver) -> Parked:
    return answer_later(broker, request, lambda: saved(Reply(), *savers))


async def synced(broker: Broker, reply: Reply, end: int) -> Reply:
    """`reply` as soon as the log is on disk up to `end`, if that is waited for at all."""
    # It may be there already: only those who wait in time are told.
    if not broker.is_sync_flush or broker.store.synced_end >= end:
        return reply
    waiting: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()

    def tell(outcome: Outcome) -> None:
        if not waiting.done():  # Who waits may have been stopped.
            waiting.set_result(outcome)

    broker.durability.wait(end, tell)
    if await waiting is Outcome.FAILED:
        return Reply(ResponseCode.SERVICE_NOT_AVAILABLE, remark="the disk has failed")
    return reply


async def saved(reply: Reply, *savers: Saver) -> Reply:
    """`reply` as soon as the tables, as they are now, survive a power cut; or why they do not."""
    try:
        for saver in savers:
            await saver.until_saved()
    except StateNotSaved as error:
        log.error("changed, but not saved: %s", error)  # noqa: TRY400  It says it all.
        return Reply(ResponseCode.SYSTEM_ERROR, remark=f"changed, but not saved: {error}")
    return reply
