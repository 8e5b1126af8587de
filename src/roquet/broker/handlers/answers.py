"""What several handlers answer with: deferred replies, refusals, tables page by page."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import msgspec

from roquet.broker.broker import Background, Broker
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.tables.saving import Saver
from roquet.net.errors import Refused
from roquet.net.router import Deferred, Reply, ReplyDeferred, Request
from roquet.protocol.bodies.body import DataVersion, read_body
from roquet.protocol.codes import VERSION_5_0_0, ResponseCode
from roquet.protocol.command import Command
from roquet.settings.changes import change_text
from roquet.state_file import StateNotSaved

log = logging.getLogger(__name__)


def defer(
    background: Background,
    request: Request[Any],
    work: Callable[[], Awaitable[Reply | ReplyDeferred | bytes]],
) -> Deferred:
    """Answers with what `work` returns; it has to come to an end by itself."""
    deferred = Deferred(request)

    async def run() -> None:
        deferred.answer(await work())

    background.services.once(f"request {request.command.code}", run)
    return deferred


def log_change(
    what: str, request: Request[Any], old: msgspec.Struct | None, new: msgspec.Struct | None
) -> None:
    """What an operator changed, under Apache's names."""
    before = None if old is None else msgspec.to_builtins(old)
    log.info(
        "%s %s, as %s asked: %s",
        "created" if old is None else "changed",
        *(what, request.sender, change_text(before, msgspec.to_builtins(new))),
    )


def answer_when_saved(background: Background, request: Request[Any], *savers: Saver) -> Deferred:
    return defer(background, request, lambda: saved(Reply(), *savers))


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
    end = broker.replication.table_log.end

    async def changed() -> Reply | ReplyDeferred | bytes:
        reply = await saved(Reply(), *savers)
        if then is not None:
            await then()
        if reply.code is not ResponseCode.SUCCESS:
            return reply
        return broker.messages.acks.reply_when_safe(request, end, reply, OnTimeout.EXPLAIN)

    return defer(broker.background, request, changed)


async def saved(reply: Reply, *savers: Saver) -> Reply:
    """`reply` as soon as the tables, as they are now, survive a power cut; or why they do not."""
    try:
        for saver in savers:
            await saver.until_saved()
    except StateNotSaved as error:
        log.error("changed, but not saved: %s", error)  # noqa: TRY400  No traceback is needed.
        return Reply(ResponseCode.SYSTEM_ERROR, remark=f"changed, but not saved: {error}")
    return reply


def invalid(command: Command, remark: str) -> Refused:
    """5.x has a code of its own for impossible parameters; 4.9 has SYSTEM_ERROR."""
    is_new = command.version >= VERSION_5_0_0
    return Refused(ResponseCode.INVALID_PARAMETER if is_new else ResponseCode.SYSTEM_ERROR, remark)


def check_takes_messages(broker: Broker, command: Command) -> None:
    """Apache's slaves of 5.x refuse a send in other words than those of 4.9."""
    if broker.config.is_slave:
        is_new = command.version >= VERSION_5_0_0
        code = ResponseCode.SYSTEM_BUSY if is_new else ResponseCode.SERVICE_NOT_AVAILABLE
        raise Refused(code, "this is a slave: messages are taken by its master")
    if not broker.replication.replicas.may_acknowledge():
        raise Refused(
            ResponseCode.SERVICE_NOT_AVAILABLE, "this master may not be the master any more"
        )


def check_is_master(config: BrokerConfig) -> None:
    """A slave copies its tables from the master: what is changed here would be lost."""
    if config.is_slave:
        raise Refused(
            ResponseCode.SYSTEM_ERROR, "a slave changes nothing by itself: ask the master"
        )


T = TypeVar("T")


def page(
    table: dict[str, T],
    version: DataVersion,
    start: int | None,
    count: int | None,
    known_version: str | None,
) -> dict[str, T]:
    """The entries from `start` on in the order of their names, or all if no page was asked for.

    Pages of different versions do not fit together: a caller that started with a version other than
    `version` gets the first page again. Raises BadBody if `known_version` is not one at all.
    """
    if start is None or count is None:
        return table
    if not known_version or read_body(DataVersion, known_version.encode()) != version:
        start = 0
    start = max(0, start)
    return {name: table[name] for name in sorted(table)[start : start + max(0, count)]}
