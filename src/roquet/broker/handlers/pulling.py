"""Pulls (11, and 361 of 5.x): messages of one queue, at once or when they come."""

from collections.abc import Callable
from typing import Final

from roquet.broker.arrivals import QueueName, Sleeper
from roquet.broker.broker import Broker
from roquet.broker.errors import UnknownTopic
from roquet.broker.handlers.refusals import invalid
from roquet.broker.subscriptions import filter_of_pull
from roquet.net.errors import Refused
from roquet.net.router import Answer, Parked, Reply, Request, on
from roquet.protocol.codes import (
    Permission,
    PullFlag,
    RequestCode,
    ResponseCode,
)
from roquet.protocol.frame import SERIALIZER_JSON
from roquet.protocol.headers.pulling import PullMessageHeader, PullMessageReplyHeader
from roquet.protocol.hot_replies import found_reply_head
from roquet.store.queue_reading import Limits, ReadResult, ReadStatus

_READ: Final = int(Permission.READ)
_COMMIT_OFFSET: Final = int(PullFlag.COMMIT_OFFSET)
_SUSPEND: Final = int(PullFlag.SUSPEND)
_MASTER_ID: Final = 0
# The remark of a 5.x broker that was told to go on elsewhere.
_RESET: Final = "OFFSET_RESET"

_CODES: Final = {
    ReadStatus.FOUND: ResponseCode.SUCCESS,
    ReadStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    ReadStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    ReadStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    ReadStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}


def pull_message(broker: Broker, request: Request[PullMessageHeader]) -> Answer:
    pull = request.header
    limits = _checked_limits(broker, request)
    if pull.sys_flag & _COMMIT_OFFSET:
        broker.offsets.advance(pull.consumer_group, pull.topic, pull.queue_id, pull.commit_offset)
    reset = broker.offsets.take_reset(pull.consumer_group, pull.topic, pull.queue_id)
    if reset is not None:
        return _moved(broker, pull, reset)
    result = broker.store.read(pull.topic, pull.queue_id, pull.queue_offset, limits)
    code = _code(result.status, pull)
    if code is ResponseCode.PULL_NOT_FOUND and pull.sys_flag & _SUSPEND:
        return _wait(broker, request, limits)
    return _answer(broker, request, result, code)


def _checked_limits(broker: Broker, request: Request[PullMessageHeader]) -> Limits:
    """What the pull may bring. Raises Refused."""
    pull = request.header
    config = broker.config
    if not config.permission & _READ:
        raise Refused(ResponseCode.NO_PERMISSION, "the broker is not readable")
    group = broker.groups.find(pull.consumer_group)
    if group is None:
        group = broker.groups.find_or_create(pull.consumer_group, may_create=config.create_groups)
        broker.group_saver.save_soon()
    if not group.consume_enable:
        raise Refused(ResponseCode.NO_PERMISSION, f"group {pull.consumer_group!r} may not consume")
    topic = broker.topics.find(pull.topic)
    if topic is None:
        raise UnknownTopic(pull.topic)
    if not topic.perm & _READ:
        raise Refused(ResponseCode.NO_PERMISSION, f"topic {pull.topic!r} is not readable")
    if not 0 <= pull.queue_id < topic.read_queue_nums:
        raise invalid(
            request.command,
            f"topic {pull.topic!r} has {topic.read_queue_nums} queues and no queue {pull.queue_id}",
        )
    matches_code, matches_record = filter_of_pull(
        pull, broker.consumers.find(pull.consumer_group), group, config
    )
    size_max = pull.max_msg_bytes or config.store.read_size_max_in_memory
    return Limits(max(1, pull.max_msg_nums), size_max, matches_code, matches_record)


def _code(status: ReadStatus, pull: PullMessageHeader) -> ResponseCode:
    code = _CODES.get(status)
    if code is None:
        # The queue is empty: whoever believes to be further on has to come back.
        is_at_start = pull.queue_offset == 0
        return ResponseCode.PULL_NOT_FOUND if is_at_start else ResponseCode.PULL_OFFSET_MOVED
    return code


def _wait(broker: Broker, request: Request[PullMessageHeader], limits: Limits) -> Parked:
    """Parks the pull until something comes that it wants, or its time is over."""
    pull = request.header
    config = broker.config

    def read(*, is_last: bool) -> Callable[[], Reply | bytes | None]:
        def work() -> Reply | bytes | None:
            result = broker.store.read(pull.topic, pull.queue_id, pull.queue_offset, limits)
            code = _code(result.status, pull)
            if code is ResponseCode.PULL_NOT_FOUND and not is_last:
                return None
            if code is ResponseCode.PULL_RETRY_IMMEDIATELY and not is_last:
                # Nothing of what came is wanted. The client would only ask again, from further
                # on; so do we, for it.
                pull.queue_offset = result.next_offset
                return None
            return _answer(broker, request, result, code)

        return work

    def look() -> bool:
        parked.answer_by(read(is_last=False))
        return not parked.is_waiting

    def give_up() -> None:
        parked.answer_by(read(is_last=True))

    sleeper = Sleeper(QueueName(pull.topic, pull.queue_id), look, give_up)
    parked = Parked(request, lambda _: broker.arrivals.forget(sleeper))
    time_ms = pull.suspend_timeout_millis if config.long_polling else config.short_polling_ms
    broker.arrivals.wait(sleeper, time_ms / 1000)
    return parked


def _answer(
    broker: Broker, request: Request[PullMessageHeader], result: ReadResult, code: ResponseCode
) -> Reply | bytes:
    pull = request.header
    command = request.command
    if code is ResponseCode.SUCCESS:
        body = b"".join(result.records)
        broker.statistics.count_get(pull.consumer_group, pull.topic, len(result.records), len(body))
        if command.serializer == SERIALIZER_JSON:
            head = found_reply_head(
                command.opaque,
                _MASTER_ID,
                result.next_offset,
                result.min_offset,
                result.max_offset,
                len(body),
            )
            return head + body
    else:
        body = b""
        broker.statistics.count_miss()
    header = PullMessageReplyHeader(
        suggest_which_broker_id=_MASTER_ID,
        next_begin_offset=result.next_offset,
        min_offset=result.min_offset,
        max_offset=result.max_offset,
    )
    return Reply(code, header, body, remark=result.status.value)


def _moved(broker: Broker, pull: PullMessageHeader, offset: int) -> Reply:
    header = PullMessageReplyHeader(
        suggest_which_broker_id=_MASTER_ID,
        next_begin_offset=offset,
        min_offset=broker.store.min_offset(pull.topic, pull.queue_id),
        max_offset=broker.store.max_offset(pull.topic, pull.queue_id),
    )
    return Reply(ResponseCode.PULL_OFFSET_MOVED, header, remark=_RESET)


ROUTES = (
    on(RequestCode.PULL_MESSAGE, PullMessageHeader, pull_message),
    on(RequestCode.LITE_PULL_MESSAGE, PullMessageHeader, pull_message),
)
