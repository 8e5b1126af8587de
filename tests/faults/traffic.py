"""Clients at work while faults are done to their servers: they note all they do in a `History`.

Plain messages to every queue, delayed ones, transactions of every outcome, and messages that their
listener wants again; one group takes them as they come, another one in order. It is the same for
servers in processes and for simulated ones: nothing here knows which, or what time it is.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from random import Random
from typing import Any, Final, Self

from roquet import (
    AsyncProducer,
    AsyncPushConsumer,
    AsyncTopicReader,
    AsyncTransactionProducer,
    ClientError,
    Message,
    QueueRef,
    ReceivedMessage,
    RetryLater,
    SendError,
    SendUnknown,
    StartFrom,
    TransactionState,
)
from roquet.protocol.messages.record import split_records
from tests.faults.history import Acknowledged, Delivery, History, Queue

TOPIC: Final = "traffic"
# Of all delay levels, so that retries come soon, too.
DELAY_S: Final = 1.0
BROKER_SETTINGS: Final = {
    "messageDelayLevel": " ".join(["1s"] * 18),
    "transactionTimeOut": "1000",
    "transactionCheckInterval": "1000",
}

SPREAD: Final = "spread"
ORDERED: Final = "ordered"

# Clocks of records have milliseconds.
_CLOCK_STEP_S: Final = 0.002
_SEND_TIMEOUT_S: Final = 3.0
_LOOK_AGAIN_S: Final = 0.05
_ENOUGH_REFUSED: Final = 5

_MEMBER: Final[dict[str, Any]] = {
    "start_from": StartFrom.FIRST,
    "commit_interval_s": 0.5,
    "balance_interval_s": 1.0,
    "error_pause_s": 0.1,
    "route_interval_s": 1.0,
    "heartbeat_interval_s": 1.0,
}
_SENDER: Final[dict[str, Any]] = {"route_interval_s": 1.0, "heartbeat_interval_s": 1.0}


@dataclass(frozen=True)
class Mix:
    """How many of each are at work at the same time, and how long each rests between messages."""

    senders_per_queue: int = 2
    delaying: int = 1
    deciding: int = 1
    spread_members: int = 1
    ordered_members: int = 1
    pause_s: float = 0.002
    # Of so many plain messages one is wanted again; None is never.
    retried_each: int | None = 20
    # How long a reader in order takes for a message.
    reading_s: float = 0.0


class Traffic:
    """While the block runs, everything goes on; `finish` ends it in peace."""

    def __init__(
        self, name_server: str, queues: Sequence[QueueRef], seed: int, mix: Mix | None = None
    ) -> None:
        self.history = History()
        self._name_server = name_server
        self._queues = queues
        self._chance = Random(seed)
        self._mix = mix or Mix()
        self._stack = AsyncExitStack()
        self._stop = asyncio.Event()
        self._senders: list[asyncio.Task[None]] = []
        self._numbers = count()
        self._decisions: dict[bytes, TransactionState] = {}
        self._turned_away: set[bytes] = set()
        self._read_in_order: set[Queue] = set()
        self._members: list[AsyncPushConsumer] = []
        self._groups: dict[AsyncPushConsumer, str] = {}

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._now_s = loop.time
        enter = self._stack.enter_async_context
        producer = await enter(AsyncProducer(self._name_server, "senders", **_SENDER))
        deciders = AsyncTransactionProducer(
            self._name_server, "deciders", check=self._decided, **_SENDER
        )
        await enter(deciders)
        for group, number in (
            (SPREAD, self._mix.spread_members),
            (ORDERED, self._mix.ordered_members),
        ):
            for _ in range(number):
                await self.join(group)
        works: list[Awaitable[None]] = [
            self._keep_sending(producer, queue)
            for queue in self._queues
            for _ in range(self._mix.senders_per_queue)
        ]
        works += [self._keep_delaying(producer) for _ in range(self._mix.delaying)]
        works += [self._keep_deciding(deciders) for _ in range(self._mix.deciding)]
        self._senders = [asyncio.ensure_future(work) for work in works]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop.set()
        for sender in self._senders:
            sender.cancel()
        await asyncio.gather(*self._senders, return_exceptions=True)
        for member in self._members:
            await member.close()
        await self._stack.aclose()

    async def join(self, group: str) -> AsyncPushConsumer:
        """One more member of a group."""
        is_ordered = group == ORDERED
        listen = self._take_in_order if is_ordered else partial(self._take, group)
        member = AsyncPushConsumer(self._name_server, group, listen, orderly=is_ordered, **_MEMBER)
        member.subscribe(TOPIC)
        self.history.delivered[group]
        self._members.append(member)
        self._groups[member] = group
        await member.open()
        return member

    async def replace(self, group: str) -> None:
        """The oldest member of a group leaves, and a new one comes in its place."""
        oldest = next(each for each in self._members if self._groups[each] == group)
        await self.leave(oldest)
        await self.join(group)

    async def leave(self, member: AsyncPushConsumer) -> None:
        self._members.remove(member)
        del self._groups[member]
        await member.close()

    async def until_more(self, number: int = 20, patience_s: float = 60.0) -> None:
        """Returns when so many more are acknowledged, or raises TimeoutError."""
        enough = self.history.owed_count + number
        async with asyncio.timeout(patience_s):
            while self.history.owed_count < enough:
                self._check_senders()
                await asyncio.sleep(_LOOK_AGAIN_S / 10)

    async def until_more_delivered(self, number: int = 20, patience_s: float = 60.0) -> None:
        """Returns when some group has got so many more, or raises TimeoutError."""

        def delivered_count() -> int:
            return sum(got.total() for got in self.history.delivered.values())

        enough = delivered_count() + number
        async with asyncio.timeout(patience_s):
            while delivered_count() < enough:
                self._check_senders()
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def until_refused(self, patience_s: float = 60.0) -> None:
        """Returns when some more sends have failed for certain."""
        enough = self.history.failed_count + _ENOUGH_REFUSED
        async with asyncio.timeout(patience_s):
            while self.history.failed_count < enough:
                self._check_senders()
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def until_delivered(self, patience_s: float = 60.0) -> None:
        """Returns when every group has what is due by now, or raises TimeoutError."""
        async with asyncio.timeout(patience_s):
            # Messages come when they come.
            while self.history.undelivered():  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_AGAIN_S)

    async def stop_sending(self) -> None:
        """What is on its way ends as it does."""
        self._stop.set()
        await asyncio.gather(*self._senders)
        self._senders = []

    async def finish(self, patience_s: float = 60.0) -> list[str]:
        """Nothing more is sent; what is due is waited for, then everything is read once more."""
        await self.stop_sending()
        with suppress(TimeoutError):  # The violations say what did not come.
            await self.until_delivered(patience_s)
        self.history.found = await everything(self._name_server, self._queues, patience_s)
        return self.history.violations()

    def _check_senders(self) -> None:
        """A sender that fell over would leave everybody waiting."""
        for sender in self._senders:
            if sender.done():
                sender.result()

    # Those who send.

    async def _keep_sending(self, producer: AsyncProducer, queue: QueueRef) -> None:
        history = self.history
        async for body in self._bodies(b"plain"):
            begun_s = self._now_s()
            async with self._outcome():
                receipt = await producer.send(
                    Message(TOPIC, body), queue=queue, timeout_s=_SEND_TIMEOUT_S
                )
                history.acknowledged.append(
                    Acknowledged(
                        _key(receipt.queue),
                        receipt.queue_offset,
                        body,
                        begun_s,
                        self._now_s(),
                        receipt.offset_id,
                    )
                )

    async def _keep_delaying(self, producer: AsyncProducer) -> None:
        async for body in self._bodies(b"delayed"):
            begun_s = self._now_s()
            async with self._outcome():
                await producer.send(Message(TOPIC, body), delay_level=1, timeout_s=_SEND_TIMEOUT_S)
                self.history.promised[body] = begun_s + DELAY_S - _CLOCK_STEP_S

    async def _keep_deciding(self, producer: AsyncTransactionProducer) -> None:
        async for body in self._bodies(b"decided"):
            wanted = self._chance.choice(
                (TransactionState.COMMIT, TransactionState.COMMIT, TransactionState.ROLLBACK)
            )
            tells = self._chance.random() < 0.8
            async with (
                self._outcome(),
                producer.transaction(
                    Message(TOPIC, body), timeout_s=_SEND_TIMEOUT_S
                ) as transaction,
            ):
                state = self._decide(body, wanted)
                if state is TransactionState.COMMIT:
                    self.history.promised[body] = 0.0
                transaction.outcome = state if tells else TransactionState.UNKNOWN

    async def _decided(self, message: ReceivedMessage) -> TransactionState:
        """A half whose sender never seen it is thrown away."""
        return self._decide(message.body, TransactionState.ROLLBACK)

    def _decide(self, body: bytes, wanted: TransactionState) -> TransactionState:
        """What was decided once stays so."""
        state = self._decisions.setdefault(body, wanted)
        if state is TransactionState.ROLLBACK:
            self.history.rolled_back.add(body)
        return state

    async def _bodies(self, kind: bytes) -> AsyncIterator[bytes]:
        while not self._stop.is_set():
            body = b"%b-%d" % (kind, next(self._numbers))
            self.history.attempted.add(body)
            yield body
            await asyncio.sleep(self._mix.pause_s)

    @asynccontextmanager
    async def _outcome(self) -> AsyncIterator[None]:
        try:
            yield
        except SendUnknown:
            self.history.unknown_count += 1
        except SendError:
            self.history.failed_count += 1
            await asyncio.sleep(_LOOK_AGAIN_S)

    # Those who read.

    async def _take(self, group: str, message: ReceivedMessage) -> None:
        body = message.body
        if self._is_wanted_again(body):
            self._turned_away.add(body)
            raise RetryLater(delay_level=1)
        self.history.deliver(group, _delivery(message), self._now_s())

    def _is_wanted_again(self, body: bytes) -> bool:
        each = self._mix.retried_each
        if each is None or body in self._turned_away:
            return False
        return int(body.partition(b"-")[2]) % each == 0

    async def _take_in_order(self, message: ReceivedMessage) -> None:
        delivery = _delivery(message)
        if delivery.queue in self._read_in_order:
            self.history.at_once.append(f"{delivery.body!r} came while another was being read")
        self._read_in_order.add(delivery.queue)
        self.history.deliver(ORDERED, delivery, self._now_s())
        self.history.deliver_in_order(delivery)
        await asyncio.sleep(self._mix.reading_s)
        self._read_in_order.discard(delivery.queue)


async def everything(
    name_server: str, queues: Sequence[QueueRef], patience_s: float
) -> dict[Queue, dict[int, bytes]]:
    """Bodies by queue and offset."""
    async with AsyncTopicReader(name_server, patience_s=patience_s) as reader:
        bounds = await _patiently(lambda: reader.bounds(queues), patience_s)
        found: dict[Queue, dict[int, bytes]] = {}
        for queue, (low, high) in bounds.items():
            found[_key(queue)] = {
                message.queue_offset: message.body
                async for chunk in reader.records(queue, low, high)
                for message in split_records(chunk.data)
            }
    return found


async def _patiently(ask: Callable[[], Awaitable[Any]], patience_s: float) -> Any:
    """The answer, as soon as there is one."""
    async with asyncio.timeout(patience_s):
        while True:
            try:
                return await ask()
            except ClientError:
                await asyncio.sleep(_LOOK_AGAIN_S)


def _key(queue: QueueRef) -> Queue:
    return queue.broker_name, queue.queue_id


def _delivery(message: ReceivedMessage) -> Delivery:
    return Delivery(message.body, _key(message.queue), message.queue_offset)
