"""A broker against a model: every message ends where it should, whatever happens in between.

Sends, delays, retries, transactions and reads in any order, under a clock that the steps move, with
clean stops, kills between any two appends, and power cuts. See `broker_model.py` for the claims.
"""

import asyncio
from collections.abc import Coroutine
from enum import Enum
from itertools import count
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import NamedTuple

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from roquet.broker.delays.delivering import deliver_slice, save_progress
from roquet.broker.delays.due import SliceBudget
from roquet.broker.transactions.check_back import check_transactions
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header, read_header
from roquet.protocol.headers.groups import (
    OffsetReplyHeader,
    QueryConsumerOffsetHeader,
    UpdateConsumerOffsetHeader,
)
from roquet.protocol.headers.messages import PullMessageHeader, SendBackHeader, SendMessageHeaderV2
from roquet.protocol.messages.message import StoredMessage
from roquet.protocol.messages.record import read_record, split_records
from roquet.protocol.names import dlq_topic, retry_topic
from roquet.store.config import FlushMode
from tests.support.broker_bed import BedClient
from tests.support.broker_model import Arrival, Awaited, BrokerModel, Queue, Transaction, What
from tests.support.mortal_broker import Killed, MortalBroker
from tests.support.stores import messages
from tests.support.transactional import (
    COMMIT,
    GROUP as PRODUCERS,
    ROLLBACK,
    UNKNOWN,
    Half,
    asked_about,
    begin,
    end,
    given_up,
)

CONSUMERS = "readers"
TOPIC_QUEUES = (Queue("TopicA", 0), Queue("TopicA", 1))
RETRIES = Queue(retry_topic(CONSUMERS), 0)
DEAD = Queue(dlq_topic(CONSUMERS), 0)
CONSUMED = (*TOPIC_QUEUES, RETRIES)
TRANSACTIONS = TOPIC_QUEUES[1]

OUTCOMES = (COMMIT, ROLLBACK, UNKNOWN)
LEVELS_MS = (1_000, 5_000, 10_000, 30_000)
FIRST_RETRY_LEVEL = 3
CHECK_COUNT_MAX = 3
SECOND_MS = 1_000
EVER_MS = 400_000  # Nothing waits longer.


class Level(NamedTuple):
    number: int


class Timer(NamedTuple):
    name: str
    delay_ms: int

    @property
    def wait_ms(self) -> int:
        is_in_seconds = self.name == "TIMER_DELAY_SEC"
        return self.delay_ms // SECOND_MS * SECOND_MS if is_in_seconds else self.delay_ms

    def properties_at(self, now_ms: int) -> dict[str, str]:
        if self.name == "TIMER_DELAY_SEC":
            return {self.name: str(self.delay_ms // SECOND_MS)}
        start_ms = now_ms if self.name == "TIMER_DELIVER_MS" else 0
        return {self.name: str(start_ms + self.delay_ms)}


class Retry(NamedTuple):
    """Consumers send back what they read; `level` is that of the message, 0 the broker's choice."""

    level: int
    count_max: int


class World:
    """A producer, a consumer and the one who runs the broker."""

    producer: BedClient
    consumer: BedClient

    def __init__(self, directory: Path, flush_mode: FlushMode) -> None:
        self._mortal = MortalBroker(
            directory,
            flush_mode,
            delay_levels_ms=LEVELS_MS,
            transaction_check_count_max=CHECK_COUNT_MAX,
        )
        self._is_sync = flush_mode is FlushMode.SYNC
        self._model = BrokerModel()
        self._bodies = (b"%d" % number for number in count())
        # By body, the copies of a half message that its producer knows, with the end of the log.
        self._halves: dict[bytes, list[tuple[Half, int]]] = {}

    # What producers do.

    async def send(self, queue: Queue, delay: Level | Timer | None) -> None:
        properties, delay_ms = {}, 0
        precision_ms = 1
        if isinstance(delay, Level):
            properties, delay_ms = {"DELAY": str(delay.number)}, LEVELS_MS[delay.number - 1]
        elif delay is not None:
            properties, delay_ms = delay.properties_at(self._now_ms), delay.wait_ms
            precision_ms = SECOND_MS
        body = next(self._bodies)
        awaited = self._awaited(What(queue, body, 0), delay_ms, precision_ms)
        header = SendMessageHeaderV2(
            producer_group=PRODUCERS,
            topic=queue.topic,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=self._now_ms,
            flag=0,
            properties="\x02".join(f"{name}\x01{value}" for name, value in properties.items()),
        )
        await self._ask(self.producer, RequestCode.SEND_MESSAGE_V2, header, body)
        awaited.log_end = self._log_end

    async def prepare(self) -> None:
        """The first half of a transaction."""
        body = next(self._bodies)
        transaction = self._model.transactions[body] = Transaction()
        self._halves[body] = []
        self._mortal.sync_soon()
        half = await begin(self._mortal.bed, self.producer, body.decode())
        transaction.half.log_end = self._log_end
        self._halves[body].append((half, self._log_end))

    async def say(self, number: int, copy: int, outcome: int) -> None:
        """About any transaction, any copy and any number of times."""
        known = [body for body, halves in self._halves.items() if halves]
        if known:
            body = known[number % len(known)]
            await self._say(body, self._halves[body][copy % len(self._halves[body])][0], outcome)

    # What consumers do.

    async def read(self, queue: Queue, retry: Retry | None = None, *, is_committing: bool) -> None:
        offset = await self._committed(queue)
        header = PullMessageHeader(
            consumer_group=CONSUMERS,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=1_000,
            sys_flag=0,
            commit_offset=0,
            suspend_timeout_millis=0,
            sub_version=0,
            subscription="*",
        )
        reply = await self.consumer.ask(RequestCode.PULL_MESSAGE, header)
        if reply.code != ResponseCode.SUCCESS:
            assert reply.code == ResponseCode.PULL_NOT_FOUND, reply.remark
            return
        found = split_records(reply.body)
        for message in found:
            if retry is None:
                self._model.consumed.add(what(message))
            else:
                await self._send_back(message, retry)
        if is_committing:
            await self._commit(queue, found[-1].queue_offset + 1)

    # What the broker does by itself.

    def advance(self, time_ms: int) -> None:
        self._mortal.clock.advance(time_ms / 1000)

    def advance_to_next(self, *, is_early: bool) -> None:
        due = self._model.next_due(self._now_ms)
        if due is not None:
            self.advance(due.due_ms - 1 - self._now_ms if is_early else due.late_ms - self._now_ms)

    async def deliver(self, count_max: int) -> None:
        broker = self._mortal.broker
        deliver_slice(
            broker.messages, broker.waiting.delays, SliceBudget(broker.clock, count_max=count_max)
        )
        await self._go_round()

    async def deliver_all(self) -> None:
        while (due_ms := self._mortal.broker.waiting.delays.next_due_ms) and due_ms <= self._now_ms:
            await self.deliver(1_000)
        self._check()

    async def check(self) -> None:
        await check_transactions(self._mortal.broker)
        await self._go_round()
        for question in await self.producer.all_asked():
            body = read_record(question.body).body
            self._halves[body].append((asked_about(question), self._log_end))

    def note_delays(self) -> None:
        self._mortal.broker.waiting.delays.propose()

    async def save_delays(self) -> None:
        broker = self._mortal.broker
        broker.store.file_keys()
        save_progress(broker.waiting.progress, broker.replication)
        await broker.tables.savers.levels.until_saved()
        await broker.tables.savers.timers.until_saved()

    async def save_offsets(self) -> None:
        broker = self._mortal.broker
        broker.waiting.pending_halves.commit_progress(broker.store.synced_end)
        await broker.tables.savers.offsets.until_saved()
        self._model.save_progress()

    def sync(self) -> None:
        self._mortal.sync()

    # What happens to it.

    async def begin(self) -> None:
        await self._start()
        broker = self._mortal.broker
        broker.tables.topics.find_or_create("TopicA", len(TOPIC_QUEUES))
        await broker.tables.savers.topics.until_saved()

    async def stop(self) -> None:
        self._mortal.clock.kill_after(None)
        self._model.save_progress()
        await self._mortal.stop()
        await self._start()

    async def kill(self) -> None:
        await self._mortal.kill()
        self._model.crash()
        await self._start()

    def kill_after(self, look_count: int) -> None:
        """Within one of the next steps that write."""
        self._mortal.clock.kill_after(look_count)

    @property
    def has_something_to_lose(self) -> bool:
        """In sync flush everything is safe, and a power cut shows that."""
        store = self._mortal.broker.store
        return self._is_sync or store.log_end > store.synced_end

    async def cut_power(self, seed: int) -> None:
        synced_end = await self._mortal.cut_power(seed)
        self._halves = {
            body: [(half, log_end) for half, log_end in halves if log_end <= synced_end]
            for body, halves in self._halves.items()
        }
        await self._start()
        store = self._mortal.broker.store
        max_offsets = {queue: store.max_offset(*queue) for queue in CONSUMED}
        self._model.lose_power(synced_end, max_offsets)

    # How it ends.

    async def finish(self) -> None:
        """Everything is answered, delivered and read."""
        self._mortal.clock.kill_after(None)
        for _ in range(CHECK_COUNT_MAX + 2):
            self.advance(EVER_MS)
            await self.check()
            for number, (body, halves) in enumerate(self._halves.items()):
                for half, _ in halves:
                    await self._say(body, half, OUTCOMES[number % len(OUTCOMES)])
        await self.deliver_all()
        for queue in CONSUMED:
            # One read may find less than there is: it ends where a file of the queue does.
            while await self._committed(queue) < self._mortal.broker.store.max_offset(*queue):
                await self.read(queue, is_committing=True)
        self._check()
        self._model.check_consumed(CONSUMED)
        self._model.check_given_up(given_up(self._mortal.bed))

    async def end(self) -> None:
        await self._mortal.kill()

    async def _start(self) -> None:
        await self._mortal.start()
        bed = self._mortal.bed
        self.producer = bed.connect()
        await self.producer.beat("producer", sends=[PRODUCERS])
        self.consumer = bed.connect()
        await self.consumer.beat("consumer", reads={CONSUMERS: ["TopicA", RETRIES.topic]})

    @property
    def _now_ms(self) -> int:
        return self._mortal.clock.time_ms

    @property
    def _log_end(self) -> int:
        return self._mortal.broker.store.log_end

    def _check(self) -> None:
        store = self._mortal.broker.store
        arrivals = [
            Arrival(what(message), message.store_timestamp)
            for queue in (*CONSUMED, DEAD)
            for message in messages(store, *queue)
        ]
        self._model.check_arrivals(arrivals, self._now_ms, TRANSACTIONS)

    async def _send_back(self, message: StoredMessage, retry: Retry) -> None:
        try_count = message.reconsume_times
        is_dead = retry.level < 0 or try_count >= retry.count_max
        level = min(retry.level or FIRST_RETRY_LEVEL + try_count, len(LEVELS_MS))
        awaited = self._awaited(
            What(DEAD if is_dead else RETRIES, message.body, try_count + 1),
            0 if is_dead else LEVELS_MS[level - 1],
        )
        header = SendBackHeader(
            offset=message.physical_offset,
            group=CONSUMERS,
            delay_level=retry.level,
            max_reconsume_times=retry.count_max,
        )
        await self._ask(self.consumer, RequestCode.CONSUMER_SEND_MSG_BACK, header)
        awaited.log_end = self._log_end
        # The group has it in hand from here on.
        self._model.consumed.add(what(message))

    def _awaited(self, what: What, delay_ms: int, precision_ms: int = 1) -> Awaited:
        due_ms = self._now_ms + delay_ms
        late_ms = -(-due_ms // precision_ms) * precision_ms
        awaited = Awaited(due_ms=due_ms, late_ms=late_ms, may_repeat=delay_ms > 0)
        self._model.awaited[what].append(awaited)
        return awaited

    async def _say(self, body: bytes, half: Half, outcome: int) -> None:
        transaction = self._model.transactions[body]
        if outcome != UNKNOWN:
            transaction.hear(outcome)
        self._mortal.sync_soon()
        reply = await end(self.producer, half, outcome)
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        if outcome != UNKNOWN:
            transaction.end(self._log_end)

    async def _committed(self, queue: Queue) -> int:
        """What the broker says, if that can be true."""
        header = QueryConsumerOffsetHeader(
            consumer_group=CONSUMERS, topic=queue.topic, queue_id=queue.queue_id
        )
        reply = await self._ask(self.consumer, RequestCode.QUERY_CONSUMER_OFFSET, header)
        offset = read_header(OffsetReplyHeader, reply.fields).offset
        assert offset == self._model.progress[queue].committed
        return offset

    async def _commit(self, queue: Queue, offset: int) -> None:
        header = UpdateConsumerOffsetHeader(
            consumer_group=CONSUMERS,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=offset,
        )
        await self._ask(self.consumer, RequestCode.UPDATE_CONSUMER_OFFSET, header)
        self._model.progress[queue].committed = offset

    async def _ask(
        self, client: BedClient, code: RequestCode, header: Header, body: bytes = b""
    ) -> Command:
        self._mortal.sync_soon()
        reply = await client.ask(code, header, body)
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        return reply

    async def _go_round(self) -> None:
        self._mortal.sync_soon()
        await asyncio.sleep(0)


def what(message: StoredMessage) -> What:
    queue = Queue(message.topic, message.queue_id)
    return What(queue, message.body, message.reconsume_times)


levels = st.integers(1, len(LEVELS_MS)).map(Level)
timers = st.builds(
    Timer,
    name=st.sampled_from(("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")),
    delay_ms=st.integers(1_000, 70_000),
)
delays = st.none() | levels | timers


retries = st.builds(Retry, level=st.sampled_from((0, 1, -1)), count_max=st.integers(0, 2))


class Ending(Enum):
    STOP = "as its operator wants"
    KILL = "between two steps"
    KILL_LATER = "within one of the next steps"


class BrokerMachine(RuleBasedStateMachine):
    """Takes steps of a world in any order. Each may be the one that the broker dies in.

    There are few rules, and each does much: what is needed for a mistake to show then comes
    together more often.
    """

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.directory = Path(mkdtemp(prefix="roquet-model-"))
        self.is_sound = True

    @initialize(flush_mode=st.sampled_from(FlushMode))
    def begin(self, flush_mode: FlushMode) -> None:
        self.world = World(self.directory, flush_mode)
        self.take(self.world.begin())

    @rule(queue=st.sampled_from(TOPIC_QUEUES), delays=st.lists(delays, min_size=1, max_size=4))
    def send(self, queue: Queue, delays: list[Level | Timer | None]) -> None:
        for delay in delays:
            self.take(self.world.send(queue, delay))

    @rule()
    def prepare(self) -> None:
        self.take(self.world.prepare())

    @rule(number=st.integers(0, 9), copy=st.integers(0, 3), outcome=st.sampled_from(OUTCOMES))
    def say(self, number: int, copy: int, outcome: int) -> None:
        self.take(self.world.say(number, copy, outcome))

    @rule(retry=st.none() | retries, is_committing=st.booleans())
    def read(self, retry: Retry | None, is_committing: bool) -> None:
        for queue in CONSUMED:
            self.take(self.world.read(queue, retry, is_committing=is_committing))

    @rule(is_early=st.booleans())
    def go_to_next(self, is_early: bool) -> None:
        """To the time of a message, or one millisecond before it."""
        self.world.advance_to_next(is_early=is_early)
        self.take(self.world.deliver_all())

    @rule(time_ms=st.sampled_from((1, 1_000, 10_000, 61_000)), count_max=st.integers(0, 3))
    def go_on(self, time_ms: int, count_max: int) -> None:
        self.world.advance(time_ms)
        self.take(self.world.deliver(count_max))

    @rule()
    def check(self) -> None:
        self.take(self.world.check())

    @rule(is_synced=st.booleans())
    def save(self, is_synced: bool) -> None:
        """As services do every few seconds; the disk may be behind them."""
        self.world.note_delays()
        if is_synced:
            self.world.sync()
        self.take(self.world.save_delays())
        self.take(self.world.save_offsets())

    # One rule for all three: a broker that hardly lives does nothing worth losing.
    @rule(ending=st.sampled_from(Ending), look_count=st.integers(0, 8))
    def end(self, ending: Ending, look_count: int) -> None:
        match ending:
            case Ending.STOP:
                self.take(self.world.stop())
            case Ending.KILL:
                self.take(self.world.kill())
            case Ending.KILL_LATER:
                self.world.kill_after(look_count)

    @precondition(lambda self: self.world.has_something_to_lose)
    @rule(is_saved=st.booleans(), seed=st.integers(0, 2**32))
    def cut_power(self, is_saved: bool, seed: int) -> None:
        if is_saved:  # The worst moment: files know what the log on disk does not.
            self.save(is_synced=False)
        self.take(self.world.cut_power(seed))

    def take(self, step: Coroutine[None, None, None]) -> None:
        self.is_sound = False
        self.runner.run(self._taken(step))
        self.is_sound = True

    async def _taken(self, step: Coroutine[None, None, None]) -> None:
        try:
            await step
        except Killed:
            await self.world.kill()

    def teardown(self) -> None:
        try:
            if self.is_sound:  # Else the first failure is the one to be reported.
                self.take(self.world.finish())
        finally:
            self.take(self.world.end())
            self.runner.close()
            rmtree(self.directory)


TestBroker = BrokerMachine.TestCase
# Each run starts several brokers.
TestBroker.settings = settings(
    settings(), max_examples=settings().max_examples // 4, stateful_step_count=40
)
