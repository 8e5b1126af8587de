"""Answers to pulls: messages that are stored or come in time, or why there are none.

Whether it may pull, and what, was decided before: see `subscriptions` and `handlers/pulling`.
"""

from typing import Final, final

import msgspec

from roquet.broker.broker import Broker
from roquet.broker.messages.long_polling import QueueName
from roquet.broker.replication.decisions import MASTER_ID, suggested_broker
from roquet.net.router import Answer, Deferred, Reply, Request
from roquet.protocol.codes import PullFlag, ResponseCode
from roquet.protocol.frame import SERIALIZER_JSON
from roquet.protocol.headers.messages import (
    PullMessageHeader,
    PullMessageReplyHeader,
)
from roquet.protocol.templates.pull_reply import found_reply
from roquet.store.reading.queue_reading import QueueReadLimits, ReadResult, ReadStatus

_COMMIT_OFFSET: Final = int(PullFlag.COMMIT_OFFSET)
_SUSPEND: Final = int(PullFlag.SUSPEND)
# Looking up a member of an enum takes as long as a call.
_FOUND: Final = ReadStatus.FOUND
_SUCCESS: Final = ResponseCode.SUCCESS
_NOT_FOUND: Final = ResponseCode.PULL_NOT_FOUND
_MOVED: Final = ResponseCode.PULL_OFFSET_MOVED
# What a 5.x broker remarks when the group was reset to another offset.
_RESET: Final = "OFFSET_RESET"

_CODES: Final = {
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


def answer_pull(
    broker: Broker, request: Request[PullMessageHeader], limits: QueueReadLimits
) -> Answer:
    """Answers now, or when there is something; `limits` is what the pull may bring."""
    pull = request.header
    if pull.sys_flag & _COMMIT_OFFSET:
        broker.tables.offsets.advance(
            pull.consumer_group, pull.topic, pull.queue_id, pull.commit_offset
        )
    finding = _look(broker, pull, limits)
    if finding.code is _NOT_FOUND and pull.sys_flag & _SUSPEND:
        waiting = WaitingPull(broker, request, limits)
        waiting.start()
        return waiting.deferred
    return _reply(broker, request, finding)


class _Finding(msgspec.Struct, gc=False):
    """What a pull finds when it looks."""

    code: ResponseCode
    result: ReadResult
    is_reset: bool = False


def _look(broker: Broker, pull: PullMessageHeader, limits: QueueReadLimits) -> _Finding:
    store = broker.store
    reset = broker.tables.offsets.take_reset(pull.consumer_group, pull.topic, pull.queue_id)
    if reset is not None:
        bounds = ReadResult(
            ReadStatus.OFFSET_TOO_SMALL,
            reset,
            store.min_offset(pull.topic, pull.queue_id),
            store.max_offset(pull.topic, pull.queue_id),
        )
        return _Finding(ResponseCode.PULL_OFFSET_MOVED, bounds, is_reset=True)
    result = store.read(pull.topic, pull.queue_id, pull.queue_offset, limits)
    code = _code(result.status, pull)
    if code is _MOVED and broker.config.is_slave and not broker.config.slave_checks_offsets:
        # The master may well have what is missing here: only that one may move a reader.
        result.next_offset = pull.queue_offset
        code = ResponseCode.PULL_RETRY_IMMEDIATELY
    return _Finding(code, result)


def _code(status: ReadStatus, pull: PullMessageHeader) -> ResponseCode:
    if status is _FOUND:
        return _SUCCESS
    code = _CODES.get(status)
    if code is None:
        # The queue is empty: a consumer at a later offset has to come back.
        is_at_start = pull.queue_offset == 0
        return ResponseCode.PULL_NOT_FOUND if is_at_start else ResponseCode.PULL_OFFSET_MOVED
    return code


@final
class WaitingPull:
    """A pull that found nothing; `deferred` is its answer, for a wanted message or a timeout."""

    __slots__ = ("_broker", "_limits", "_request", "deferred", "last_tick", "queues")

    def __init__(
        self, broker: Broker, request: Request[PullMessageHeader], limits: QueueReadLimits
    ) -> None:
        self._broker = broker
        self._request = request
        self._limits = limits
        pull = request.header
        self.queues = (QueueName(pull.topic, pull.queue_id),)
        self.last_tick = 0
        self.deferred = Deferred(request, lambda _: broker.messages.long_polls.forget(self))

    def start(self) -> None:
        config = self._broker.config
        is_long = config.long_polling
        time_ms = (
            self._request.header.suspend_timeout_millis if is_long else config.short_polling_ms
        )
        self._broker.messages.long_polls.wait(self, time_ms / 1000)

    def look(self) -> bool:
        self.deferred.answer_by(self._answer_if_wanted)
        return not self.deferred.is_waiting

    def give_up(self) -> None:
        self.deferred.answer_by(self._final_answer)

    def _answer_if_wanted(self) -> Reply | bytes | None:
        pull = self._request.header
        finding = _look(self._broker, pull, self._limits)
        if finding.code is _NOT_FOUND:
            return None
        if (
            finding.code is ResponseCode.PULL_RETRY_IMMEDIATELY
            and finding.result.next_offset == finding.result.max_offset
        ):
            # No message that came is wanted. The client would only pull again, from further on;
            # so do we, for it.
            pull.queue_offset = finding.result.next_offset
            return None
        return _reply(self._broker, self._request, finding)

    def _final_answer(self) -> Reply | bytes:
        finding = _look(self._broker, self._request.header, self._limits)
        return _reply(self._broker, self._request, finding)


def _reply(broker: Broker, request: Request[PullMessageHeader], finding: _Finding) -> Reply | bytes:
    pull = request.header
    command = request.command
    result = finding.result
    broker.tables.offsets.note_pulled(
        pull.consumer_group, pull.topic, pull.queue_id, result.next_offset
    )
    if finding.code is not _SUCCESS:
        broker.statistics.count_miss()
    else:
        broker.statistics.count_get(pull.consumer_group, pull.topic, result.count, len(result.body))
        if command.serializer == SERIALIZER_JSON:
            return found_reply(
                command.opaque,
                _suggested_broker(broker, pull, result),
                result.next_offset,
                result.min_offset,
                result.max_offset,
                result.body,
            )
    header = PullMessageReplyHeader(
        suggest_which_broker_id=_suggested_broker(broker, pull, result),
        next_begin_offset=result.next_offset,
        min_offset=result.min_offset,
        max_offset=result.max_offset,
    )
    remark = _RESET if finding.is_reset else result.status.value
    return Reply(finding.code, header, result.body, remark=remark)


def _suggested_broker(broker: Broker, pull: PullMessageHeader, result: ReadResult) -> int:
    if not broker.config.slaves_are_read:
        return MASTER_ID
    store = broker.store
    last = store.entries(pull.topic, pull.queue_id, result.next_offset - 1, 1)
    lag_size = store.log_end - last[0].physical_offset if last else 0
    return suggested_broker(
        broker.tables.groups.find(pull.consumer_group),
        is_behind=lag_size > broker.config.store.in_memory_size,
    )
