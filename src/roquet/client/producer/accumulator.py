"""From messages to receipts: made ready, admitted by the window, sent at once or after a linger.

All producers send through an accumulator. Without `linger_ms` a message is sent at once; with it,
messages of one topic wait for each other and share a request. Requests are made in `sender.py`.
The window, which limits what is in flight, is entered and left here.
"""

import asyncio
import contextlib
import secrets
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final, final

from msgspec.structs import replace as replaced

from roquet.client.callbacks import merged_results
from roquet.client.cluster.instance import ClientInstance, InstanceName
from roquet.client.cluster.links import LinkSettings, Participant
from roquet.client.cluster.name_servers import name_server_source
from roquet.client.config import Credentials, ProducerConfig, TlsConfig
from roquet.client.errors import ClientError, NotOpen, SendFailed
from roquet.client.hooks import MessageKind, SendHook
from roquet.client.lifecycle import Lifecycle
from roquet.client.names import wrapped
from roquet.client.producer.batching import (
    GATHERED_SIZE_MAX,
    Batcher,
    can_share,
    outgoing_batch,
    size_of,
)
from roquet.client.producer.fast_batches import END, FastBatching, FastMessages
from roquet.client.producer.fast_send import (
    EndedAttempt,
    FastSends,
    FirstAttempt,
    SendTemplates,
    ThreadSends,
    first_receipt,
    made_ready,
)
from roquet.client.producer.outgoing import (
    GATHERED_COUNT_MAX,
    Outgoing,
    Ready,
    check_message,
    is_compressed,
    needs_timers,
    outgoing_of,
    property_text,
    taken,
)
from roquet.client.producer.queue_choice import ANYWHERE, Target
from roquet.client.producer.receipt import ProducerStatistics, SendReceipt
from roquet.client.producer.sender import Sender
from roquet.client.producer.window import Window
from roquet.client.trace.tracing import MESSAGE_SIZE_MAX, Tracer
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
class ProducerSession:
    """What a producer has between `open` and `close`."""

    instance: ClientInstance
    sender: Sender
    window: Window
    batcher: Batcher | None
    fast_messages: FastMessages
    tracer: Tracer | None
    loop: asyncio.AbstractEventLoop

    async def open(self, _timeout_s: float | None) -> None:
        await self.instance.open()
        if self.tracer is not None:
            await self.tracer.open()

    async def close(self) -> None:
        """Waits a little for what is in flight."""
        if self.batcher is not None:
            self.batcher.flush()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSING_TIMEOUT_S):
                await self.window.until_empty()
        await self.instance.close()
        if self.tracer is not None:
            await self.tracer.close()


@final
class Accumulator:
    """`what` names the owner in errors, `router` answers requests of brokers. Made without I/O.

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
        registers_everywhere: bool = False,
    ) -> None:
        """Of the clients that share an instance name, it answers the requests for which `is_asked`
        is true. Unless it `names_group`, brokers do not know this producer as one of its group; one
        that `registers_everywhere` is registered with all of them before it sends anything."""
        self._names_group = names_group
        self._registers_everywhere = registers_everywhere
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
        # Hooks that add properties for consumers.
        self.property_sources = [
            hook.added_properties
            for hook in config.hooks
            if type(hook).added_properties is not SendHook.added_properties
        ]
        self._statistics = ProducerStatistics()
        # While it is open, if messages may be added to batches without asking hooks.
        self.fast_batching: FastBatching | None = None
        self._lifecycle = Lifecycle(what, self._new_session)
        # Raises NotOpen, UsedAfterFork or WrongLoop. Every send asks, so it is not wrapped.
        self.usable = self._lifecycle.usable

    @property
    def hooks(self) -> Sequence[SendHook]:
        hooks = self.config.hooks
        return hooks if self._tracer is None else (*hooks, self._tracer)

    async def open(self) -> None:
        """Asks no server: the first send does. Raises NotOpen after `close`."""
        await self._lifecycle.open()

    async def close(self) -> None:
        """Waits a little for what is in flight; a second time does nothing. Raises WrongLoop."""
        if self._lifecycle.session is not None:
            self._lifecycle.session.instance.check_loop()
        self.fast_batching = None
        await self._lifecycle.close()

    def _new_session(self) -> ProducerSession:
        config = self.config
        instance = self._new_instance()
        batcher = None
        if config.linger_ms is not None:
            batcher = Batcher(
                self.send_together,
                instance.services,
                config.linger_ms / 1000,
                config.message_size_max,
            )
        session = ProducerSession(
            instance,
            Sender(config, instance, self.clock, self._statistics, self.hooks),
            Window(
                config.window_count,
                config.in_flight_size_max,
                lambda: self._statistics.stored_count,
            ),
            batcher,
            FastMessages(config, instance.unique_ids, self.clock),
            self._tracer,
            asyncio.get_running_loop(),
        )
        if batcher is not None and not self.property_sources:
            self.fast_batching = FastBatching(
                session.fast_messages, batcher, session.window, instance, session.loop
            )
        return session

    def _new_instance(self) -> ClientInstance:
        config = self.config
        return ClientInstance(
            Participant(
                self._what,
                self._heartbeat,
                self._router,
                self._is_asked,
                registers_everywhere=self._registers_everywhere,
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

    def _heartbeat(self, client_id: str) -> Heartbeat:
        if not self._names_group:
            return Heartbeat(client_id=client_id)
        group = wrapped(self.config.namespace, self.config.group)
        return Heartbeat(client_id=client_id, producer_data_set=[ProducerData(group_name=group)])

    # Messages are made ready.

    def ready(
        self,
        message: Message,
        extra: Mapping[str, str],
        kind: MessageKind = _NORMAL,
        *,
        is_request: bool = False,
    ) -> Ready:
        """The message with an id; `extra` are properties that its sender cannot set.

        Raises BadArgument, NotOpen, UsedAfterFork or WrongLoop.
        """
        session = self.usable()
        if self.property_sources:
            message = self._with_added(message)
        unique_ids = session.instance.unique_ids
        if not extra and kind is _NORMAL and not is_request:
            return made_ready(message, session.fast_messages, unique_ids, self.config, self.clock)
        message = taken(message)
        message_id = message.message_id or unique_ids.make(self.clock.now_ms())
        check_message(message, self.config)
        text = property_text(message, message_id, extra, self.config.namespace)
        return Ready(message, message_id, text, kind, needs_timers(extra), is_request)

    def _with_added(self, message: Message) -> Message:
        """Raises BadArgument."""
        message = taken(message)
        check_message(message, self.config)
        added = merged_results(self.property_sources, message)
        return replaced(message, properties={**message.properties, **added})

    def parts(
        self, messages: Iterable[Message], size_max: int
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
                    # Once for each part: nothing is closed while one is made.
                    fast_messages = self.usable().fast_messages
                ready = self.ready(message, {})
            except ClientError as error:
                if part:
                    yield part
                    part, part_size = [], 0
                yield error
                message = next(source, END)
                continue
            size = size_of(ready)
            may_share = self._can_share(ready)
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
            if is_shared and not self.property_sources:
                message, size = fast_messages.fill(
                    part, source, size_max - part_size, GATHERED_COUNT_MAX
                )
                part_size += size
            else:
                message = next(source, END)
        if part:
            yield part

    def _can_share(self, ready: Ready) -> bool:
        """Whether others may be sent in the same request."""
        return (
            ready.kind is _NORMAL and not ready.is_request and can_share(ready.message, self.config)
        )

    # Messages are sent.

    def send(
        self, ready: Ready, target: Target, timeout_s: float
    ) -> Coroutine[None, None, SendReceipt]:
        """Returns when a broker has the message. Raises SendError. To be awaited at once."""
        session = self._lifecycle.session
        assert session is not None  # Or there would be no message that is ready.
        if not session.window.try_enter(len(ready.message.body)):
            return self._send_later(session, ready, target, timeout_s)
        return self._send_now(session, ready, target, timeout_s)

    def room_for(self, message: Message, timeout_s: float) -> asyncio.Future[None] | None:
        """None if a message need not wait. Otherwise it is to be awaited: then there is room for
        it, and `send_entered` sends it; whatever else that raises is for `give_up`.

        Raises BadArgument, or as `Lifecycle.usable`.
        """
        window = self.usable().window
        body = message.body
        if type(body) is not bytes or window.has_room(len(body)):
            return None
        check_message(taken(message) if message.keys else message, self.config)
        return window.room(len(body), timeout_s)

    def give_up(
        self,
        may_enter: asyncio.Future[None],
        message: Message,
        timeout_s: float,
        error: BaseException,
    ) -> None:
        """Raises SendFailed for a TimeoutError."""
        session = self._lifecycle.session
        assert session is not None
        session.window.give_up(may_enter, len(message.body))
        if isinstance(error, TimeoutError):
            raise self._no_room(session.window, message.topic, timeout_s) from None

    def send_entered(
        self, message: Message, timeout_s: float
    ) -> Coroutine[None, None, SendReceipt]:
        """Sends a message to any queue that has waited for room. To be awaited at once."""
        session = self._lifecycle.session
        assert session is not None
        try:
            ready = self.ready(message, {})
        except BaseException:
            session.window.leave(len(message.body))
            raise
        return self._send_now(session, ready, ANYWHERE, timeout_s)

    async def _send_later(
        self, session: ProducerSession, ready: Ready, target: Target, timeout_s: float
    ) -> SendReceipt:
        """When there is room in the window."""
        await self._enter(session, ready.message.topic, len(ready.message.body), timeout_s)
        return await self._send_now(session, ready, target, timeout_s)

    def _send_now(
        self, session: ProducerSession, ready: Ready, target: Target, timeout_s: float
    ) -> Coroutine[None, None, SendReceipt]:
        """Leaves the window, which it is in."""
        now_s = session.loop.time()
        deadline_s = now_s + timeout_s
        if session.batcher is not None and self._can_share(ready):
            return self._send_shared(session, session.batcher, ready, target, timeout_s)
        first = None
        if target is ANYWHERE and session.sender.fast_sends is not None:
            first = session.sender.fast_sends.start(ready, timeout_s, now_s)
        return self._send_alone(session, ready, target, deadline_s, first)

    async def _send_shared(
        self,
        session: ProducerSession,
        batcher: Batcher,
        ready: Ready,
        target: Target,
        timeout_s: float,
    ) -> SendReceipt:
        """Leaves the window."""
        try:
            if target.order_key is not None:
                deadline_s = session.loop.time() + timeout_s
                target = await session.sender.resolved(ready.message.topic, target, deadline_s)
            return await batcher.add(ready, target, timeout_s)
        finally:
            session.window.leave(len(ready.message.body))

    async def _send_alone(
        self,
        session: ProducerSession,
        ready: Ready,
        target: Target,
        deadline_s: float,
        first: FirstAttempt | None = None,
    ) -> SendReceipt:
        """Leaves the window. `first` is an attempt that is on its way."""
        size = len(ready.message.body)
        try:
            if first is not None:
                try:
                    receipt = first_receipt(ready, first, await first.call.response)
                except NetError:
                    receipt = None
                if receipt is not None:
                    session.sender.note_stored(size)
                    return receipt
            # Not always through `_outgoing`: a coroutine for nothing is not cheap.
            if self._is_slow(ready):
                outgoing = await self._outgoing(ready)
            else:
                outgoing = outgoing_of(ready, self.config)
            return (await session.sender.send(outgoing, target, deadline_s, first))[0]
        except BaseException:
            if first is not None:
                first.end()  # Maybe cancelled while it waited; what was answered has ended.
            raise
        finally:
            session.window.leave(size)

    def thread_sends(self) -> ThreadSends | None:
        """For a thread that is not the loop's. None if first attempts are left to the loop: hooks,
        signatures, encryption, shared requests. Raises NotOpen."""
        session = self._lifecycle.session
        if session is None:
            raise NotOpen(self._what, was_open=False)
        instance, clock = session.instance, self.clock
        is_left = session.sender.fast_sends is None or session.batcher is not None
        if is_left or self.property_sources or instance.peers.tls() is not None:
            return None
        # Turns that both threads take at once may be the same one, which does no harm.
        rounds = session.sender.rounds
        templates = SendTemplates(self.config)
        unique_ids = instance.unique_ids.another(secrets.randbits(32))
        return ThreadSends(
            FastSends(self.config, instance, clock, rounds, templates),
            FastMessages(self.config, unique_ids, clock),
            unique_ids,
            instance.peers,
        )

    async def send_on(self, ready: Ready, first: EndedAttempt, timeout_s: float) -> SendReceipt:
        """What a send ends in whose first attempt was such a one, and not all it took. It does not
        enter the window, so there has to be a limit to them. Raises SendError."""
        session = self.usable()
        outgoing = outgoing_of(ready, self.config)
        deadline_s = session.loop.time() + timeout_s
        return (await session.sender.send(outgoing, ANYWHERE, deadline_s, first))[0]

    async def send_oneway(self, ready: Ready, target: Target, timeout_s: float) -> None:
        """Returns when the message is on its way. Raises SendFailed."""
        session = self.usable()
        deadline_s = session.loop.time() + timeout_s
        await session.sender.send_oneway(await self._outgoing(ready), target, deadline_s)

    @contextlib.asynccontextmanager
    async def room(
        self, messages: Sequence[Ready], timeout_s: float
    ) -> AsyncIterator[ProducerSession]:
        """Room in the window for messages that are sent together. Raises SendFailed when there was
        none, and nothing was stored, for `timeout_s`."""
        session = self.usable()
        size = sum([len(ready.message.body) for ready in messages])
        await self._enter(session, messages[0].message.topic, size, timeout_s, len(messages))
        try:
            yield session
        finally:
            session.window.leave(size)

    async def send_together(
        self, batch: Sequence[Ready], target: Target, deadline_s: float
    ) -> Sequence[SendReceipt]:
        """Sends messages of one topic in one request; their caller has `room` for them."""
        session = self._lifecycle.session
        assert session is not None
        if len(batch) == 1:
            outgoing = await self._outgoing(batch[0])
        else:
            outgoing = outgoing_batch(batch, self.config)
        return await session.sender.send(outgoing, target, deadline_s)

    async def _enter(
        self, session: ProducerSession, topic: str, size: int, timeout_s: float, count: int = 1
    ) -> None:
        """Raises SendFailed."""
        window = session.window
        try:
            await window.enter(size, timeout_s)
        except TimeoutError:
            raise self._no_room(window, topic, timeout_s, count) from None

    def _no_room(self, window: Window, topic: str, timeout_s: float, count: int = 1) -> SendFailed:
        reason = f"no room within {timeout_s:g} s: {window} are in flight, and none is stored"
        error = SendFailed(topic, reason)
        self._statistics.note_error(error, count)
        return error

    def statistics(self) -> ProducerStatistics:
        """A copy of the counts up to now."""
        session = self._lifecycle.session
        return replace(
            self._statistics,
            in_flight_count=0 if session is None else session.window.count,
            waiting_count=0 if session is None else session.window.waiting_count,
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


_tracer_numbers = count(1)


def new_tracer(
    trace: bool | str,
    name_server: str | None,
    owner: str,
    *,
    credentials: Credentials | None = None,
    tls: TlsConfig | bool = False,
) -> Tracer | None:
    """The tracer that the option `trace` asks for: none, to the default topic, or to this one.

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
    return Tracer(Accumulator("tracer", config), TRACE_TOPIC if trace is True else trace)
