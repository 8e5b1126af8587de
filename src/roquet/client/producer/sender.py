"""Attempts, one after the other, until a broker has the message or the time is up.

The request is made in `outgoing.py`, the queue is chosen in `queue_choice.py`. Here is the loop
around them, with hooks at both ends, and the judgement of what became of the message. The first
attempt is made in `fast_send.py` where nothing is left to decide.
"""

import asyncio
from collections.abc import Awaitable, Coroutine, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import Final, TypeVar, final

from roquet.client.cluster.instance import ClientInstance
from roquet.client.cluster.requests import fast_address
from roquet.client.cluster.routes import NewTopic, Route
from roquet.client.config import ProducerConfig
from roquet.client.errors import (
    NoNameServer,
    NoTimers,
    NotYetSafe,
    RequestRefused,
    SendError,
    SendFailed,
    SendImpossible,
    SendRefused,
    SendUnknown,
    TopicNotFound,
)
from roquet.client.hooks import SendHook, Sending, SendMode
from roquet.client.names import wrapped
from roquet.client.producer.fast_batches import stored_receipts
from roquet.client.producer.fast_send import EndedAttempt, FastSends, SendTemplates
from roquet.client.producer.outgoing import Outgoing, header_of
from roquet.client.producer.queue_choice import (
    AttemptFailed,
    QueueRounds,
    RetryRules,
    Target,
    is_worth_retrying,
    may_retry,
    pause_before,
    queue_of_key,
)
from roquet.client.producer.receipt import ProducerStatistics, SendReceipt
from roquet.client.producer.send_hooks import HookCalls
from roquet.client.queue_ref import QueueRef
from roquet.clock import Clock
from roquet.net.errors import CallTimedOut, ConnectFailed, ConnectionLost, NetError
from roquet.protocol.codes import ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import ProtocolError
from roquet.protocol.fields import header_reader
from roquet.protocol.headers.messages import SendMessageReplyHeader

_SUCCESS: Final = int(ResponseCode.SUCCESS)
# Stored by the master, but not confirmed as its settings require.
_NOT_YET_SAFE: Final = {
    int(ResponseCode.FLUSH_DISK_TIMEOUT): "the disk did not confirm it in time",
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): "the replica did not confirm it in time",
    int(ResponseCode.SLAVE_NOT_AVAILABLE): "the broker has no replica now",
}
_ID_SEPARATOR: Final = ","

_read_reply = header_reader(SendMessageReplyHeader)

T = TypeVar("T")


@final
class SendTime:
    """The time of one send, which is for brokers to answer in.

    What all senders wait for has limits of its own: a route that is looked up, a connection that is
    opened. When that has succeeded, the time that it took is added to the time of the send.
    """

    __slots__ = ("_loop", "deadline_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, deadline_s: float) -> None:
        self._loop = loop
        self.deadline_s = deadline_s

    @property
    def left_s(self) -> float:
        return self.deadline_s - self._loop.time()

    async def not_counting(self, waiting: Awaitable[T]) -> T:
        begin_s = self._loop.time()
        result = await waiting
        self.deadline_s += self._loop.time() - begin_s
        return result


@final
class Sender:
    """Sends for one producer. Deadlines are in the time of the loop."""

    def __init__(
        self,
        config: ProducerConfig,
        instance: ClientInstance,
        clock: Clock,
        statistics: ProducerStatistics,
        hooks: Sequence[SendHook] = (),
    ) -> None:
        self._config = config
        self._instance = instance
        self._clock = clock
        self._statistics = statistics
        self._hook_calls = HookCalls(config, instance, clock, hooks) if hooks else None
        self._retry_rules = RetryRules(
            frozenset(config.retry_codes), config.retry_not_safe, config.retry_unknown
        )
        self._new_topic = NewTopic(config.template_topic, config.new_topic_queue_count)
        self.rounds = QueueRounds(clock, avoid_slow_brokers=config.avoid_slow_brokers)
        self._templates = SendTemplates(config)
        # A producer with hooks, signatures or brokers to avoid has more to do in each attempt.
        is_fast = not (hooks or config.avoid_slow_brokers or instance.requests.is_signed)
        self.fast_sends = (
            FastSends(config, instance, clock, self.rounds, self._templates) if is_fast else None
        )
        self._loop = asyncio.get_running_loop()

    def send(
        self,
        outgoing: Outgoing,
        target: Target,
        deadline_s: float,
        first: EndedAttempt | None = None,
    ) -> Coroutine[None, None, Sequence[SendReceipt]]:
        """One receipt for each message. Raises SendError; see `judged`.

        `first` is an attempt that was made already, and has ended.
        """
        if self._hook_calls is not None:
            return self._send_with_hooks(self._hook_calls, outgoing, target, deadline_s)
        return self._send(outgoing, target, deadline_s, first)

    def note_stored(self, size: int) -> None:
        """A first attempt was all it took."""
        self._statistics.stored_count += 1
        self._statistics.stored_size += size

    async def send_oneway(self, outgoing: Outgoing, target: Target, deadline_s: float) -> None:
        """Returns when the message is on its way. Raises SendFailed when it is not."""
        if self._hook_calls is None:
            await self._send_oneway(outgoing, target, deadline_s)
            return
        with self._hook_calls.sending(outgoing) as sending:
            await self._send_oneway(outgoing, target, deadline_s, sending)

    async def resolved(self, topic: str, target: Target, deadline_s: float) -> Target:
        """The queue instead of an order key. Raises SendFailed when there is no route."""
        if target.order_key is None:
            return target
        try:
            time = SendTime(self._loop, deadline_s)
            route = await self._route(topic, wrapped(self._config.namespace, topic), time)
        except SendFailed as error:
            self._statistics.note_error(error, 1)
            raise
        return Target(queue_of_key(route.queues, target.order_key))

    async def _send_with_hooks(
        self, hook_calls: HookCalls, outgoing: Outgoing, target: Target, deadline_s: float
    ) -> Sequence[SendReceipt]:
        with hook_calls.sending(outgoing) as sending:
            sending.receipts = await self._send(outgoing, target, deadline_s, sending=sending)
        return sending.receipts

    async def _send(
        self,
        outgoing: Outgoing,
        target: Target,
        deadline_s: float,
        first: EndedAttempt | None = None,
        sending: Sending | None = None,
    ) -> Sequence[SendReceipt]:
        try:
            time = SendTime(self._loop, deadline_s)
            receipts = await self._try_all(outgoing, target, time, first, sending)
        except SendError as error:
            self._statistics.note_error(error, outgoing.message_count)
            raise
        self._statistics.stored_count += outgoing.message_count
        self._statistics.stored_size += len(outgoing.body)
        return receipts

    async def _send_oneway(
        self, outgoing: Outgoing, target: Target, deadline_s: float, sending: Sending | None = None
    ) -> None:
        try:
            await self._attempt_oneway(outgoing, target, deadline_s, sending)
        except SendFailed as error:
            self._statistics.note_error(error, 1)
            raise
        self._statistics.oneway_count += 1

    async def _try_all(
        self,
        outgoing: Outgoing,
        target: Target,
        time: SendTime,
        first: EndedAttempt | None,
        sending: Sending | None,
    ) -> Sequence[SendReceipt]:
        errors: list[AttemptFailed] = []
        failed_brokers: list[str] = []
        # Where it may be stored.
        queues: list[QueueRef] = []
        if first is not None:
            try:
                return receipts_of(outgoing, first.queue, first.address, first.reply())
            except (NetError, RequestRefused, NotYetSafe) as error:
                failed_brokers.append(first.queue.broker_name)
                queues += [first.queue] if _may_be_stored(error) else []
                self._note_failure(error, errors, outgoing)
        # A queue that was chosen for its order gets the message once: others may have come between.
        attempt_count = 1 if target.is_fixed else 1 + self._config.retry_count
        while may_retry(errors, attempt_count, self._retry_rules):
            attempt = len(errors)
            # Only the first lookup can fail: a known route stays known.
            route = self._instance.routes.known(outgoing.wire_topic) or await self._route(
                outgoing.topic, outgoing.wire_topic, time
            )
            queue = self._choose(route, target, failed_brokers[-1] if failed_brokers else None)
            pause_s = pause_before(attempt) if queue.broker_name in failed_brokers else 0.0
            if time.left_s <= pause_s:
                break
            if attempt:
                self._statistics.retry_count += 1
                await asyncio.sleep(pause_s)
            try:
                if sending is None:
                    return await self._attempt(outgoing, queue, route, time)
                number = attempt + 1
                return await self._attempt_with_hooks(sending, number, outgoing, queue, route, time)
            except (NetError, RequestRefused, NoTimers, NotYetSafe) as error:
                failed_brokers.append(queue.broker_name)
                shown_queue = queue._replace(topic=outgoing.topic)
                queues += [shown_queue] if _may_be_stored(error) else []
                self._note_failure(error, errors, outgoing)
        failure = judged(outgoing.topic, errors)
        if isinstance(failure, SendRefused) and failure.code == ResponseCode.TOPIC_NOT_EXIST:
            # The next send looks it up again: it may have been created, or its broker is back.
            self._instance.routes.forget(outgoing.wire_topic)
            doubt = await self._instance.routes.doubt()
            if doubt is not None:
                raise SendFailed(outgoing.topic, f"{failure.reason}; {doubt}")
        if isinstance(failure, SendRefused) and self._is_missing(outgoing.wire_topic, target.queue):
            # Brokers have no code of their own for that.
            raise SendImpossible(outgoing.topic, failure.reason)
        if isinstance(failure, SendUnknown) and failure.message_id is None:
            failure.message_id = outgoing.messages[0].message_id
            failure.queues = tuple(queues)
        raise failure

    def _is_missing(self, wire_topic: str, queue: QueueRef | None) -> bool:
        """Whether the queue that the caller wants is none that the topic is known to have."""
        route = self._instance.routes.known(wire_topic)
        if queue is None or route is None:
            return False
        places = {(each.broker_name, each.queue_id) for each in route.queues}
        return (queue.broker_name, queue.queue_id) not in places

    def _note_failure(
        self, error: AttemptFailed, errors: list[AttemptFailed], outgoing: Outgoing
    ) -> None:
        errors.append(error)
        if not isinstance(error, NotYetSafe) and self._is_worth_retrying(error):
            self._instance.routes.renew_soon(outgoing.wire_topic)

    def _is_worth_retrying(self, error: AttemptFailed) -> bool:
        return is_worth_retrying(error, self._retry_rules)

    async def _attempt_oneway(
        self, outgoing: Outgoing, target: Target, deadline_s: float, sending: Sending | None
    ) -> None:
        time = SendTime(self._loop, deadline_s)
        route = await self._route(outgoing.topic, outgoing.wire_topic, time)
        queue = self._choose(route, target, None)
        header = header_of(outgoing, queue, self._config, self._clock.now_ms())
        try:
            address = self._send_address(_master(route, queue))
            call = partial(
                self._instance.requests.call_oneway,
                address,
                outgoing.code,
                header,
                time.left_s,
                outgoing.body,
            )
            if sending is None or self._hook_calls is None:
                await call()
            else:
                with self._hook_calls.attempt(sending, 1, queue, address, SendMode.ONEWAY):
                    await call()
        except NetError as error:
            self._instance.routes.renew_soon(outgoing.wire_topic)
            raise SendFailed(outgoing.topic, str(error)) from error

    async def _attempt_with_hooks(
        self,
        sending: Sending,
        number: int,
        outgoing: Outgoing,
        queue: QueueRef,
        route: Route,
        time: SendTime,
    ) -> Sequence[SendReceipt]:
        assert self._hook_calls is not None
        address = self._send_address(_master(route, queue))
        with self._hook_calls.attempt(
            sending, number, queue, address, SendMode.ANSWERED
        ) as attempt:
            attempt.receipts = await self._attempt(outgoing, queue, route, time)
        return attempt.receipts

    async def _attempt(
        self, outgoing: Outgoing, queue: QueueRef, route: Route, time: SendTime
    ) -> Sequence[SendReceipt]:
        begin_s = self._loop.time()
        try:
            address = _master(route, queue)
            first = outgoing.messages[0]
            if first.needs_timers:
                await self._check_timers(address, time.left_s)
            elif first.is_request:
                await self._instance.heartbeats.ensure_registered(address, time.left_s)
            address = self._send_address(address)
            peers = self._instance.peers
            if peers.open_connection(address) is None:
                await time.not_counting(peers.connect(address))
            reply = await self._call(outgoing, queue, address, time.left_s)
            receipts = receipts_of(outgoing, queue, address, reply)
        except (NetError, RequestRefused):
            self._note_latency(queue, begin_s, has_failed=True)
            raise
        if self._config.avoid_slow_brokers:
            self._note_latency(queue, begin_s, has_failed=False)
        return receipts

    def _send_address(self, master: str) -> str:
        return fast_address(master) if self._config.fast_port else master

    def _call(
        self, outgoing: Outgoing, queue: QueueRef, address: str, timeout_s: float
    ) -> Awaitable[Command]:
        now_ms = self._clock.now_ms()
        if self._config.attempt_timeout_s is not None:
            timeout_s = min(timeout_s, self._config.attempt_timeout_s)
        requests = self._instance.requests
        connection = requests.peers.open_connection(address)
        if connection is None or requests.is_signed:
            header = header_of(outgoing, queue, self._config, now_ms)
            return requests.call(address, outgoing.code, header, timeout_s, outgoing.body)
        frame_of = partial(
            self._templates.of(outgoing, queue).fill,
            now_ms,
            outgoing.properties,
            outgoing.body,
            outgoing.flag,
            outgoing.sys_flag,
        )
        return connection.call_by(outgoing.code, frame_of, timeout_s)

    async def _route(self, topic: str, wire_topic: str, time: SendTime) -> Route:
        """Looks it up until it is found or the time is over. Raises SendFailed."""
        attempt = 0
        while True:
            try:
                finding = self._instance.routes.find(wire_topic, self._new_topic)
                return await time.not_counting(finding)
            except TopicNotFound as error:
                if error.is_missing:
                    raise SendImpossible(topic, error.reason) from error
                failure = SendFailed(topic, error.reason)
            except NoNameServer as error:
                failure = SendFailed(topic, str(error))
            attempt += 1
            if time.left_s <= pause_before(attempt):
                raise failure
            await asyncio.sleep(pause_before(attempt))

    def _choose(self, route: Route, target: Target, failed_broker: str | None) -> QueueRef:
        if target.queue is not None:
            return target.queue
        if target.order_key is not None:
            return queue_of_key(route.queues, target.order_key)
        return self.rounds.next(route.queues, failed_broker)

    def _note_latency(self, queue: QueueRef, begin_s: float, *, has_failed: bool) -> None:
        latency_s = self._loop.time() - begin_s
        self.rounds.note(queue.broker_name, latency_s, has_failed=has_failed)

    async def _check_timers(self, address: str, timeout_s: float) -> None:
        if not await self._instance.heartbeats.has_timers(address, timeout_s):
            raise NoTimers(address)


def receipts_of(
    outgoing: Outgoing, queue: QueueRef, address: str, reply: Command
) -> Sequence[SendReceipt]:
    """One receipt for each message. Raises NotYetSafe, RequestRefused or ConnectionLost."""
    if reply.code != _SUCCESS and reply.code not in _NOT_YET_SAFE:
        raise RequestRefused(address, reply.code, reply.remark)
    try:
        header = _read_reply(reply.fields)
    except ProtocolError as error:
        # Stored, but not where: as if the response were lost.
        raise ConnectionLost(address, str(error)) from None
    # As the caller knows the topic, and the queue that the broker really took.
    if queue.topic != outgoing.topic or queue.queue_id != header.queue_id:
        queue = QueueRef(outgoing.topic, queue.broker_name, header.queue_id)
    messages = outgoing.messages
    # One id for each, with commas between them. Some topics of 5.x keep a batch as one record.
    offset_ids = header.msg_id.split(_ID_SEPARATOR)
    if len(offset_ids) != len(messages):
        offset_ids = [header.msg_id] * len(messages)
    receipts = stored_receipts(messages, queue, offset_ids, header)
    if reply.code != _SUCCESS:
        raise NotYetSafe(outgoing.topic, _NOT_YET_SAFE[reply.code], receipts)
    return receipts


def judged(topic: str, errors: Sequence[AttemptFailed]) -> SendError:
    """What became of a message whose attempts all ended in errors."""
    if not errors:
        return SendFailed(topic, "timed out before it could be sent; increase `timeout_s`")
    for error in reversed(errors):
        if isinstance(error, NotYetSafe):
            return error  # Another attempt has not made it safer, but it is stored.
    reason = "; then ".join(_reasons(errors))
    # One attempt that may have arrived is enough: the message may be stored.
    if any(map(_may_be_stored, errors)):
        return SendUnknown(topic, reason)
    last = errors[-1]
    if isinstance(last, RequestRefused):
        return SendRefused(topic, reason, last.code)
    if isinstance(last, NoTimers):
        return SendImpossible(topic, reason)
    return SendFailed(topic, reason)


def _may_be_stored(error: AttemptFailed) -> bool:
    return isinstance(error, ConnectionLost | CallTimedOut)


def _reasons(errors: Sequence[AttemptFailed]) -> Iterator[str]:
    """A broker that is away fails in the same way again and again."""
    for reason, same in groupby(map(str, errors)):
        times = len(list(same))
        yield reason if times == 1 else f"{reason} ({times} times)"


def _master(route: Route, queue: QueueRef) -> str:
    address = route.masters.get(queue.broker_name)
    if address is None:
        raise ConnectFailed(queue.broker_name, "name servers list no master for it")
    return address
