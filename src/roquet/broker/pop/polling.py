"""Requests that wait for something to pop, in a queue of their topic or in a retry topic."""

from collections.abc import Callable
from typing import Any, TypeAlias, final

from roquet.broker.broker import Broker
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.messages.long_polling import ANY_QUEUE, QueueName
from roquet.broker.messages.subscriptions import Filter
from roquet.broker.pop.ordered_popping import OrderedPopping, has_ordered_messages
from roquet.broker.pop.poll_counts import PollKey
from roquet.broker.pop.popping import Popping, has_messages, retry_topics
from roquet.net.router import Answer, Deferred, Reply, ReplyDeferred, Request
from roquet.protocol.codes import ResponseCode
from roquet.protocol.headers.pop import (
    NotificationHeader,
    NotificationReplyHeader,
    PopMessageHeader,
    PopMessageReplyHeader,
)

# What a look returns if there is nothing to answer with.
Found: TypeAlias = Reply | ReplyDeferred | bytes | None


def answer_pop(broker: Broker, request: Request[PopMessageHeader], wanted: Filter) -> Answer:
    """Answers now, or when there is something, or when the time of the poll is over."""
    pop = request.header
    key = poll_key(pop)

    def popping() -> Popping | OrderedPopping:
        return OrderedPopping(broker, pop, wanted) if pop.order else Popping(broker, pop, wanted)

    def look() -> Found:
        looking = popping()
        taken = looking.taken
        if looking.take():
            return broker.messages.acks.reply_when_safe(
                request, taken.end, taken.reply(), OnTimeout.IGNORE
            )
        if taken.has_more_to_see:
            broker.messages.long_polls.announce(key.topic, key.queue_id)
        return None

    found = look()
    if found is not None:
        return found
    timeout_ms = _timeout_ms(broker, pop)
    if timeout_ms <= 0:
        return popping().taken.reply()
    if not broker.waiting.pop_polls.has_room(key, broker.config):
        return _polling_full(broker, pop)
    waiting = WaitingPoll(broker, request, key, look, popping().taken.reply)
    waiting.start(timeout_ms)
    return waiting.deferred


def answer_notification(broker: Broker, request: Request[NotificationHeader]) -> Answer:
    """The same for a request that takes nothing, and only wants to know."""
    header = request.header
    key = poll_key(header)

    def look() -> Found:
        has_any = (
            has_ordered_messages(broker, key, header.attempt_id or "")
            if header.order
            else has_messages(broker, key)
        )
        return _notified(has_messages=True) if has_any else None

    found = look()
    if found is not None:
        return found
    timeout_ms = _timeout_ms(broker, header)
    if timeout_ms <= 0:
        return _notified(has_messages=False)
    if not broker.waiting.pop_polls.has_room(key, broker.config):
        return Reply(header=NotificationReplyHeader(has_msg=False, polling_full=True))
    waiting = WaitingPoll(broker, request, key, look, lambda: _notified(has_messages=False))
    waiting.start(timeout_ms)
    return waiting.deferred


@final
class WaitingPoll:
    """A request that found nothing; `deferred` is its answer."""

    __slots__ = (
        "_broker",
        "_final",
        "_is_started",
        "_key",
        "_look",
        "deferred",
        "last_tick",
        "queues",
    )

    def __init__(
        self,
        broker: Broker,
        request: Request[Any],
        key: PollKey,
        look: Callable[[], Found],
        final: Callable[[], Reply | ReplyDeferred | bytes],
    ) -> None:
        """`look` is called for every message that may be for it, `final` when its time is over."""
        self._broker = broker
        self._key = key
        self._look = look
        self._final = final
        self.queues = (
            QueueName(key.topic, key.queue_id),
            *(
                QueueName(topic, ANY_QUEUE)
                for topic in retry_topics(broker.config, key.group, key.topic)
            ),
        )
        self.last_tick = 0
        self._is_started = False
        self.deferred = Deferred(request, lambda _: self._forget())

    def start(self, timeout_ms: int) -> None:
        self._broker.waiting.pop_polls.add(self._key)
        self._broker.messages.long_polls.wait(self, timeout_ms / 1000)
        self._is_started = True

    def look(self) -> bool:
        polls, turn = self._broker.waiting.pop_polls, self._broker.messages.long_polls.turn
        if self._is_started and polls.empty_turns.get(self._key) == turn:
            return False
        self.deferred.answer_by(self._look)
        if self.deferred.is_waiting:
            polls.empty_turns[self._key] = turn
            return False
        polls.remove(self._key)
        return True

    def give_up(self) -> None:
        """Without a look: every message that came has woken it."""
        self._broker.waiting.pop_polls.remove(self._key)
        self.deferred.answer(self._final())

    def _forget(self) -> None:
        self._broker.waiting.pop_polls.remove(self._key)
        self._broker.messages.long_polls.forget(self)


def poll_key(header: PopMessageHeader | NotificationHeader) -> PollKey:
    return PollKey(header.topic, header.consumer_group, header.queue_id)


def _timeout_ms(broker: Broker, header: PopMessageHeader | NotificationHeader) -> int:
    """How long a request may wait; the clock of its client may be ahead of ours."""
    now_ms = broker.clock.now_ms()
    born_ms = header.born_time or now_ms
    return min(header.poll_time, born_ms + header.poll_time - now_ms)


def _notified(*, has_messages: bool) -> Reply:
    return Reply(header=NotificationReplyHeader(has_msg=has_messages))


def _polling_full(broker: Broker, pop: PopMessageHeader) -> Reply:
    header = PopMessageReplyHeader(
        pop_time=broker.clock.now_ms(),
        invisible_time=pop.invisible_time,
        revive_qid=0,
        rest_num=0,
        start_offset_info="",
        msg_offset_info="",
    )
    remark = "too many pops wait already: see popPollingSize and maxPopPollingSize"
    return Reply(ResponseCode.POLLING_FULL, header, remark=remark)
