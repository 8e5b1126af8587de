"""Requests whose answer takes a while: a save to disk, or a word from another peer."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from roquet.broker.broker import Broker
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.tables.saving import Saver
from roquet.net.router import Deferred, Reply, ReplyDeferred, Request
from roquet.protocol.codes import ResponseCode
from roquet.state_file import StateNotSaved

log = logging.getLogger(__name__)


def defer(
    broker: Broker,
    request: Request[Any],
    work: Callable[[], Awaitable[Reply | ReplyDeferred | bytes]],
) -> Deferred:
    """Answers with what `work` returns; it has to come to an end by itself."""
    deferred = Deferred(request)

    async def run() -> None:
        deferred.answer(await work())

    broker.services.once(f"request {request.command.code}", run)
    return deferred


def answer_when_saved(broker: Broker, request: Request[Any], *savers: Saver) -> Deferred:
    return defer(broker, request, lambda: saved(Reply(), *savers))


def answer_when_changed(
    broker: Broker,
    request: Request[Any],
    *savers: Saver,
    then: Callable[[], Awaitable[None]] | None = None,
) -> Deferred:
    """To a change of topics or groups, made before the call.

    Answers when the tables are saved, `then` has returned, and the change is as safe as a message:
    on the disk, and at as many replicas as are waited for.
    """
    end = broker.table_log.end

    async def changed() -> Reply | ReplyDeferred | bytes:
        reply = await saved(Reply(), *savers)
        if then is not None:
            await then()
        if reply.code is not ResponseCode.SUCCESS:
            return reply
        return broker.acks.reply_when_safe(request, end, reply, OnTimeout.EXPLAIN)

    return defer(broker, request, changed)


async def saved(reply: Reply, *savers: Saver) -> Reply:
    """`reply` as soon as the tables, as they are now, survive a power cut; or why they do not."""
    try:
        for saver in savers:
            await saver.until_saved()
    except StateNotSaved as error:
        log.error("changed, but not saved: %s", error)  # noqa: TRY400  It says it all.
        return Reply(ResponseCode.SYSTEM_ERROR, remark=f"changed, but not saved: {error}")
    return reply
