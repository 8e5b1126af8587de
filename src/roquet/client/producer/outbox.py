"""What producers of every kind have in common: a life, and the way from messages to receipts."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, final

from msgspec.structs import replace as replaced

from roquet.client.cluster.instance import ClientInstance, InstanceName
from roquet.client.cluster.links import LinkSettings, Participant
from roquet.client.cluster.name_servers import name_server_source
from roquet.client.cluster.tls import TlsConfig
from roquet.client.config import Credentials, ProducerConfig
from roquet.client.errors import ClientError, NotOpen, SendFailed
from roquet.client.hooks import MessageKind, SendHook
from roquet.client.names import check_topic, wrapped
from roquet.client.producer.batching import GATHERED_COUNT_MAX, GATHERED_SIZE_MAX, Gatherer, size_of
from roquet.client.producer.delay import needs_timers
from roquet.client.producer.first_attempts import FirstAttempt, first_receipt
from roquet.client.producer.outgoing import (
    Outgoing,
    Ready,
    can_share,
    check_message,
    is_compressed,
    outgoing_batch,
    outgoing_of,
    plain_ready,
    property_text,
)
from roquet.client.producer.plain_gathering import PlainGathering
from roquet.client.producer.plain_messages import END, PlainMessages
from roquet.client.producer.receipt import SendReceipt
from roquet.client.producer.sending import ANYWHERE, Sender, Target
from roquet.client.producer.statistics import ProducerStatistics
from roquet.client.producer.window import Window
from roquet.client.trace.tracing import MESSAGE_SIZE_MAX, Tracer
from roquet.client.user_code import gathered
from roquet.clock import SystemClock
from roquet.net.errors import NetError
from roquet.net.router import Router
from roquet.protocol.bodies.clients import Heartbeat, ProducerData
from roquet.protocol.command import Command
from roquet.protocol.messages.message import Message
from roquet.protocol.names import TRACE_TOPIC

_CLOSING_TIMEOUT_S: Final = 3.0
_TRACE_GROUP: Final = "_INNER_TRACE_PRODUCER-{}-{}"
_SHOWN_GROUP_SIZE: Final = 200
_NORMAL: Final = MessageKind.NORMAL
# Larger bodies are compressed in a thread: the loop has other things to do meanwhile.
_COMPRESSED_INLINE_SIZE_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Opened:
    """What exists between `open` and `close`."""

    instance: ClientInstance
    sender: Sender
    window: Window
    gatherer: Gatherer | None
    plain_messages: PlainMessages
    loop: asyncio.AbstractEventLoop


@final
class Outbox:
    """`what` names the owner in errors, `router` answers what brokers ask. Made without I/O.

    Belongs to the event loop and the process that opened it.
    """

    def __init__(
        self,
        what: str,
        config: ProducerConfig,
        router: Router[Any] | None = None,
        is_asked: Callable[[Command], bool] = lambda _command: False,
        *,
        names_group: bool = True,
        meets_all: bool = False,
    ) -> None:
        """Of those who share a name, it answers what `is_asked` of it. Unless it `names_group`,
        brokers do not know the group to have this producer; one that `meets_all` is known to all of
        them before it sends anything."""
        self._names_group = names_group
        self._meets_all = meets_all
        self.config = config
        self.clock = SystemClock()
        self._what = what
        self._router = router
        self._is_asked = is_asked
        self._tracer = new_tracer(
            config.trace,
            config.name_server,
            f"{config.group[:_SHOWN_GROUP_SIZE]}-PRODUCE",
            credentials=config.credentials,
            tls=config.tls,
        )
        # Hooks that have something to say to consumers.
        self.property_sources = [
            hook.added_properties
            for hook in config.hooks
            if type(hook).added_properties is not SendHook.added_properties
        ]
        self._statistics = ProducerStatistics()
        # While it is open, and if there is nothing that each message has to be asked for.
        self.plain_gathering: PlainGathering | None = None
        self._open: Opened | None = None
        self._is_closed = False

    @property
    def hooks(self) -> Sequence[SendHook]:
        hooks = self.config.hooks
        return hooks if self._tracer is None else (*hooks, self._tracer)

    async def open(self) -> None:
        """Begins to live; the cluster is asked by the first send. Raises NotOpen after `close`."""
        if self._is_closed:
            raise NotOpen(self._what, was_open=True)
        if self._open is not None:
            return
        config = self.config
        instance = ClientInstance(
            Participant(
                self._what,
                self._heartbeat,
                self._router,
                self._is_asked,
                meets_all=self._meets_all,
            ),
            LinkSettings(
                name_server_source(config.name_server, config.unit),
                config.credentials,
                config.tls,
                config.route_interval_s,
                config.heartbeat_interval_s,
            ),
            self.clock,
            InstanceName(
                config.instance_name, config.unit, is_shared=config.instance_name is not None
            ),
        )
        gatherer = None
        if config.linger_ms is not None:
            gatherer = Gatherer(
                self.send_together,
                instance.services,
                config.linger_ms / 1000,
                config.message_size_max,
            )
        loop = asyncio.get_running_loop()
        window = Window(config.in_flight_max, config.in_flight_size_max)
        plain_messages = PlainMessages(config, instance.unique_ids, self.clock)
        self._open = Opened(
            instance,
            Sender(config, instance, self.clock, self._statistics, self.hooks),
            window,
            gatherer,
            plain_messages,
            loop,
        )
        if gatherer is not None and not self.property_sources:
            self.plain_gathering = PlainGathering(plain_messages, gatherer, window, instance, loop)
        await instance.open()
        if self._tracer is not None:
            await self._tracer.open()

    async def close(self) -> None:
        """Waits a little for what is on its way, and leaves; a second time does nothing."""
        if self._open is not None:
            self._open.instance.check_loop()
        was_closed, self._is_closed = self._is_closed, True
        if was_closed or self._open is None:
            return
        self.plain_gathering = None
        if self._open.gatherer is not None:
            self._open.gatherer.flush()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_TIMEOUT_S):
                await self._open.window.until_empty()
        await self._open.instance.close()
        if self._tracer is not None:
            await self._tracer.close()

    def usable(self) -> Opened:
        """Raises NotOpen, UsedAfterFork or WrongLoop."""
        if self._open is None or self._is_closed:
            raise NotOpen(self._what, was_open=self._is_closed)
        self._open.instance.check_usable()
        return self._open

    def ready(
        self,
        message: Message,
        extra: Mapping[str, str],
        kind: MessageKind = _NORMAL,
        *,
        is_request: bool = False,
    ) -> Ready:
        """The message with an id; `extra` are properties that its sender cannot set.

        Raises BadArgument, NotOpen or UsedAfterFork.
        """
        opened = self.usable()
        if self.property_sources:
            message = self._with_added(message)
        is_bare = not extra and kind is _NORMAL and not is_request
        if is_bare and type(message) is Message:
            check_topic(message.topic)
            ready = opened.plain_messages.ready(message, message.topic)
            if ready is not None:
                return ready
        message_id = opened.instance.unique_ids.make(self.clock.now_ms())
        if is_bare:
            return plain_ready(message, message_id, self.config)
        check_message(message, self.config)
        text = property_text(message, message_id, extra, self.config.namespace)
        return Ready(message, message_id, text, kind, needs_timers(extra), is_request)

    def _with_added(self, message: Message) -> Message:
        """Raises BadArgument."""
        check_message(message, self.config)
        added = gathered(self.property_sources, message)
        return replaced(message, properties={**message.properties, **added})

    def send(
        self, ready: Ready, target: Target, timeout_s: float
    ) -> Coroutine[None, None, SendReceipt]:
        """Returns when a broker has the message. Raises SendError. To be awaited at once."""
        opened = self._open
        assert opened is not None  # Or there would be no message that is ready.
        now_s = opened.loop.time()
        size = len(ready.message.body)
        if not opened.window.try_enter(size):
            return self._send_later(ready, target, timeout_s)
        first_attempts = opened.sender.first_attempts
        if opened.gatherer is None and target is ANYWHERE and first_attempts is not None:
            first = first_attempts.begin(ready, timeout_s, now_s)
            if first is not None:
                return self._send_first(opened, ready, first, now_s + timeout_s)
        return self._send_inside(opened, ready, target, now_s + timeout_s)

    async def _send_later(self, ready: Ready, target: Target, timeout_s: float) -> SendReceipt:
        opened = self.usable()
        deadline_s = opened.loop.time() + timeout_s
        await self.enter([ready], len(ready.message.body), timeout_s)
        return await self._send_inside(opened, ready, target, deadline_s)

    async def _send_first(
        self, opened: Opened, ready: Ready, first: FirstAttempt, deadline_s: float
    ) -> SendReceipt:
        """Leaves the window."""
        size = len(ready.message.body)
        try:
            try:
                receipt = first_receipt(ready, first, await first.call.response)
            except NetError:
                receipt = None
            if receipt is not None:
                opened.sender.note_stored(size)
                return receipt
            outgoing = outgoing_of(ready, self.config)
            return (await opened.sender.send(outgoing, ANYWHERE, deadline_s, first))[0]
        except BaseException:
            first.end()  # Maybe cancelled while it waited; what was answered has ended.
            raise
        finally:
            opened.window.leave(size)

    async def _send_inside(
        self, opened: Opened, ready: Ready, target: Target, deadline_s: float
    ) -> SendReceipt:
        """Leaves the window."""
        try:
            if opened.gatherer is not None and self.can_share(ready):
                if target.order_key is not None:
                    target = await opened.sender.resolved(ready.message.topic, target, deadline_s)
                return await opened.gatherer.add(ready, target, deadline_s)
            # Not always through `_outgoing`: a coroutine for nothing is not cheap.
            if self._is_slow(ready):
                outgoing = await self._outgoing(ready)
            else:
                outgoing = outgoing_of(ready, self.config)
            return (await opened.sender.send(outgoing, target, deadline_s))[0]
        finally:
            opened.window.leave(len(ready.message.body))

    async def send_oneway(self, ready: Ready, target: Target, timeout_s: float) -> None:
        """Returns when the message is on its way. Raises SendFailed."""
        opened = self.usable()
        deadline_s = opened.loop.time() + timeout_s
        await opened.sender.send_oneway(await self._outgoing(ready), target, deadline_s)

    async def send_together(
        self, batch: Sequence[Ready], target: Target, deadline_s: float
    ) -> Sequence[SendReceipt]:
        """Sends messages of one topic in one request; room in the window is the caller's affair."""
        assert self._open is not None
        if len(batch) == 1:
            outgoing = await self._outgoing(batch[0])
        else:
            outgoing = outgoing_batch(batch, self.config)
        return await self._open.sender.send(outgoing, target, deadline_s)

    async def enter(self, messages: Sequence[Ready], size: int, timeout_s: float) -> None:
        """Returns when there is room for messages of that size. Raises SendFailed."""
        window = self.usable().window
        try:
            await window.enter(size, timeout_s)
        except TimeoutError:
            reason = f"no room within {timeout_s:g} s: {window} are on their way"
            error = SendFailed(messages[0].message.topic, reason)
            self._statistics.note_error(error, len(messages))
            raise error from None

    def statistics(self) -> ProducerStatistics:
        """A copy of the counts up to now."""
        window = None if self._open is None else self._open.window
        return replace(
            self._statistics,
            in_flight_count=0 if window is None else window.count,
            waiting_count=0 if window is None else window.waiting_count,
        )

    async def _outgoing(self, ready: Ready) -> Outgoing:
        if self._is_slow(ready):
            return await asyncio.to_thread(outgoing_of, ready, self.config)
        return outgoing_of(ready, self.config)

    def _is_slow(self, ready: Ready) -> bool:
        message = ready.message
        return len(message.body) > _COMPRESSED_INLINE_SIZE_MAX and is_compressed(
            message, self.config
        )

    def can_share(self, ready: Ready) -> bool:
        """Whether others may be sent in the same request."""
        return (
            ready.kind is _NORMAL and not ready.is_request and can_share(ready.message, self.config)
        )

    def _heartbeat(self, client_id: str) -> Heartbeat:
        if not self._names_group:
            return Heartbeat(client_id=client_id)
        group = wrapped(self.config.namespace, self.config.group)
        return Heartbeat(client_id=client_id, producer_data_set=[ProducerData(group_name=group)])


def parts_to_share(
    messages: Iterable[Message], outbox: Outbox, size_max: int
) -> Iterator[list[Ready] | ClientError]:
    """Neighbours that share a request, as many as fit, or what is wrong with a message."""
    part: list[Ready] = []
    part_size = 0
    is_shared = False
    size_max = min(size_max, GATHERED_SIZE_MAX)
    source: Iterator[Any] = iter(messages)
    message: Any = next(source, END)
    while message is not END:
        try:
            if not part:
                # Once for each part: nobody closes the outbox while one is made.
                plain_messages = outbox.usable().plain_messages
            ready = outbox.ready(message, {})
        except ClientError as error:
            if part:
                yield part
                part, part_size = [], 0
            yield error
            message = next(source, END)
            continue
        size = size_of(ready)
        may_share = outbox.can_share(ready)
        if part and not (
            is_shared
            and may_share
            and message.topic == part[0].message.topic
            and part_size + size <= size_max
            and len(part) < GATHERED_COUNT_MAX
        ):
            yield part
            part, part_size = [], 0
        if not part:
            is_shared = may_share
        part.append(ready)
        part_size += size
        if is_shared and not outbox.property_sources:
            message, size = plain_messages.fill(
                part, source, size_max - part_size, GATHERED_COUNT_MAX
            )
            part_size += size
        else:
            message = next(source, END)
    if part:
        yield part


_tracer_numbers = count(1)


def new_tracer(
    trace: bool | str,
    name_server: str | None,
    owner: str,
    *,
    credentials: Credentials | None = None,
    tls: TlsConfig | bool = False,
) -> Tracer | None:
    """As the option `trace` says: not at all, into the usual topic, or into one of this name.

    `owner` is the group that is traced and what it does: "shop-PRODUCE", "billing-CONSUME".
    """
    if trace is False:
        return None
    config = ProducerConfig(
        name_server=name_server,
        group=_TRACE_GROUP.format(owner, next(_tracer_numbers)),
        credentials=credentials,
        tls=tls,
        message_size_max=MESSAGE_SIZE_MAX,
    )
    return Tracer(Outbox("tracer", config), TRACE_TOPIC if trace is True else trace)
