"""The check-back: asks producers about transactions that they did not end.

A round goes once through all half messages that exist when it starts, from the oldest that
was not handled. `decision_on` decides about one of them. Before its producer is asked, a half
message is appended again with the number of times it was checked, so the round always continues,
whether or not there is an answer. Only a half message that is too young to be checked, or a store
that refuses writes, ends a round; the next round resumes there.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Container
from enum import Enum
from typing import Final, final

import msgspec

from roquet.broker.broker import Broker
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.messages.appending import NewMessage, append_message
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.tables.clients import ClientConnection, Producers
from roquet.broker.transactions.half_messages import (
    given_up,
    kept,
    question_record,
    real_queue,
    renewed,
)
from roquet.broker.transactions.phases import (
    append_half,
    is_given_up,
    open_half,
    record_missing_ends,
)
from roquet.clock import Clock
from roquet.net.errors import Refused
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.messages import CheckTransactionHeader
from roquet.protocol.messages.message import Property, StoredMessage
from roquet.protocol.messages.message_id import offset_id
from roquet.protocol.names import HALF_TOPIC, TOO_MANY_CHECKS_TOPIC
from roquet.store.appends import Appended
from roquet.store.errors import StoreUnavailable

log = logging.getLogger(__name__)

# How long a round rests after each step, in lengths of that step: other work comes first.
_REST: Final = 4.0
_PRODUCER_TRIES_MAX: Final = 3
_TOPIC_QUEUE_COUNT: Final = 1
_HOUR_MS: Final = 3_600_000
_DIGITS_MAX: Final = 18


class CheckDecision(Enum):
    OVER = "its transaction is over"
    WAIT = "too young to be checked, and so is everything after it"
    KEEP = "its producer does not want to be asked yet, others after it may"
    ASK = "its producer has had the time it gets"
    GIVE_UP = "checked too often, or for too long, without an answer"


# What does something to a half message.
_ACTS: Final = frozenset((CheckDecision.KEEP, CheckDecision.ASK, CheckDecision.GIVE_UP))


class Half(msgspec.Struct, frozen=True):
    """What the decision about a half message depends on."""

    offset: int
    born_ms: int
    check_count: int = 0
    immunity_ms: int | None = None  # how long its producer does not want to be asked
    first_offset: int | None = None  # of the copy that its producer knows


class CheckRules(msgspec.Struct, frozen=True):
    timeout_ms: int
    check_count_max: int
    reserved_ms: int


def decision_on(
    half: Half, ended: Container[int | None], now_ms: int, rules: CheckRules
) -> CheckDecision:
    if half.offset in ended or half.first_offset in ended:
        return CheckDecision.OVER
    age_ms = now_ms - half.born_ms
    if half.check_count >= rules.check_count_max or age_ms > rules.reserved_ms:
        return CheckDecision.GIVE_UP
    if half.immunity_ms is not None:
        return CheckDecision.KEEP if age_ms < half.immunity_ms else CheckDecision.ASK
    # One from the future would wait for too long: the clock of its producer proves nothing.
    return CheckDecision.WAIT if 0 <= age_ms < rules.timeout_ms else CheckDecision.ASK


async def keep_checking(broker: Broker) -> None:
    """A round after each interval; never returns."""
    while True:
        await broker.background.pauses.pause(lambda: broker.config.transaction_check_interval_ms)
        await check_transactions(broker)


async def check_transactions(broker: Broker) -> None:
    """One round; none on a slave, which writes nothing by itself."""
    if broker.config.is_slave:
        return
    pending = broker.waiting.pending_halves
    this_round = _Round(broker)
    try:
        broker.tables.topics.find_or_create(HALF_TOPIC, _TOPIC_QUEUE_COUNT)
        record_missing_ends(broker)
        if pending.progress < pending.doubtful_end:
            # Duplicates are found by key, so all keys have to be indexed.
            await _gently(broker.clock, lambda: not broker.store.file_keys())
        await _gently(broker.clock, this_round.step)
    except (Refused, StoreUnavailable) as error:
        log.warning("the transaction check is interrupted and resumes later: %s", error)
    await _gently(broker.clock, pending.pass_ops)
    this_round.report()


async def _gently(clock: Clock, step: Callable[[], bool]) -> None:
    """Takes steps for as long as there are any, with rests in between."""
    while True:
        began_s = clock.monotonic_s()
        if not step():
            return
        await asyncio.sleep(_REST * (clock.monotonic_s() - began_s))


@final
class _Round:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._pending = broker.waiting.pending_halves
        # What is appended again comes after it, and is left to the next round.
        self._end = self._pending.end
        config = broker.config
        self._rules = CheckRules(
            config.transaction_timeout_ms,
            config.transaction_check_count_max,
            # A clock that was set forward by days must not make all of them old at once.
            config.store.reserved_hours * _HOUR_MS + max(0, broker.clock.jumped_ms()),
        )
        self._counts: Counter[CheckDecision] = Counter()
        # By group: those without a producer to ask, and those that are given up.
        self._unasked: Counter[str] = Counter()
        self._given_up: Counter[str] = Counter()

    def step(self) -> bool:
        """Handles a few half messages; whether there are others.

        Without a pause, so no transaction ends between the decision and what it leads to. Raises
        Refused when the store refuses writes; the progress up to there stays.
        """
        pending = self._pending
        progress = pending.progress
        batch = pending.next_halves()
        # All before the first is appended again: an append has to be indexed before the next look.
        decisions = [self._decision_on(half) for half in batch.messages]
        for half, decision in zip(batch.messages, decisions, strict=True):
            if half.queue_offset >= self._end or decision is CheckDecision.WAIT:
                return False
            self._carry_out(decision, half)
            pending.advance_to(half.queue_offset + 1)
        pending.advance_to(batch.next_offset)
        return progress < pending.progress < self._end

    def report(self) -> None:
        for group, count in self._unasked.items():
            log.warning(
                "no producer of group %s is connected; %d of its transactions cannot be checked."
                " Start a transaction producer of the group; after %d checks each is given up",
                group,
                count,
                self._rules.check_count_max,
            )
        for group, count in self._given_up.items():
            log.warning(
                "gave up %d transactions of group %s: their messages are not delivered, and kept in"
                " topic %s",
                count,
                group,
                TOO_MANY_CHECKS_TOPIC,
            )
        if self._counts:
            log.info(
                "checked transactions: %d asked, %d without a connected producer, %d kept, %d given"
                " up; now at offset %d of %d",
                self._counts[CheckDecision.ASK] - self._unasked.total(),
                self._unasked.total(),
                self._counts[CheckDecision.KEEP],
                self._counts[CheckDecision.GIVE_UP],
                self._pending.progress,
                self._pending.end,
            )

    def _decision_on(self, half: StoredMessage) -> CheckDecision:
        facts = facts_of(half, self._rules)
        now_ms = self._broker.clock.now_ms()
        decision = decision_on(facts, self._pending.ended, now_ms, self._rules)
        is_doubtful = half.queue_offset < self._pending.doubtful_end
        if is_doubtful and decision in _ACTS and self._was_handled(decision, half):
            return CheckDecision.OVER
        return decision

    def _was_handled(self, decision: CheckDecision, half: StoredMessage) -> bool:
        """Before a crash that took the progress with it."""
        try:
            if decision is CheckDecision.GIVE_UP and is_given_up(self._broker.store, half):
                return True
            return open_half(self._broker, half) is not half
        except Refused as refused:
            _check_is_at_fault(half, refused)
            return True

    def _carry_out(self, decision: CheckDecision, half: StoredMessage) -> None:
        if decision not in _ACTS:
            return
        broker = self._broker
        try:
            real_queue(half)  # One without a topic is refused before anything is stored.
            if decision is CheckDecision.GIVE_UP:
                broker.tables.topics.find_or_create(TOO_MANY_CHECKS_TOPIC, _TOPIC_QUEUE_COUNT)
                append_message(broker.messages, given_up(half))
                self._given_up[group_of(half)] += 1
            elif decision is CheckDecision.KEEP:
                append_half(broker, kept(half))
            elif not _ask(broker, half):
                self._unasked[group_of(half)] += 1
            self._counts[decision] += 1
        except Refused as refused:
            _check_is_at_fault(half, refused)


def _check_is_at_fault(half: StoredMessage, refused: Refused) -> None:
    """Raises what the store refused, unless the half message is at fault itself.

    That one is skipped, or all after it would wait forever.
    """
    if refused.code is ResponseCode.SERVICE_NOT_AVAILABLE:
        raise refused
    log.error("skipped half message %d: %s", half.queue_offset, refused)


def _ask(broker: Broker, half: StoredMessage) -> bool:
    """Appends the half message again and asks; whether a producer is connected."""
    group = group_of(half)
    producer = _reachable_producer(broker.clients.producers, group)
    if producer is None and broker.clients.producers.members(group):
        # They read too slowly. What was not asked must not count as a check.
        append_half(broker, kept(half))
        return True
    again = renewed(half, check_count_of(half) + 1)
    appended = append_half(broker, again)
    if producer is not None:
        command = _question(broker.config, half, again, appended)
        # With sync flush the answer could come before the half message it is about can be read.
        end = appended.physical_offset + appended.size
        broker.messages.acks.when_safe(end, lambda: _send(producer, command), OnTimeout.DROP)
    return producer is not None


def _reachable_producer(
    producers: Producers[ClientConnection], group: str
) -> ClientConnection | None:
    """Another member of the group each time."""
    for _ in range(_PRODUCER_TRIES_MAX):
        producer = producers.next_of(group)
        if producer is not None and producer.is_open and not producer.is_stalled:
            return producer
    return None


def _question(
    config: BrokerConfig, half: StoredMessage, again: NewMessage, appended: Appended
) -> Command:
    unique_key = half.properties.get(Property.UNIQUE_KEY)
    header = CheckTransactionHeader(
        tran_state_table_offset=appended.queue_offset,
        commit_log_offset=appended.physical_offset,
        msg_id=unique_key,
        transaction_id=unique_key,
        offset_msg_id=offset_id(half.store_host, appended.physical_offset),
        broker_name=config.broker_name,
    )
    record = question_record(half, again, appended)
    return Command(RequestCode.CHECK_TRANSACTION_STATE, fields=fields_of(header), body=record)


def _send(producer: ClientConnection, command: Command) -> None:
    if producer.is_open:
        producer.send_oneway(command)


def facts_of(message: StoredMessage, rules: CheckRules) -> Half:
    properties = message.properties
    immunity_ms = None
    if Property.CHECK_IMMUNITY_TIME_S in properties:
        immunity_s = _number(properties[Property.CHECK_IMMUNITY_TIME_S])
        immunity_ms = rules.timeout_ms if immunity_s is None else immunity_s * 1000
    return Half(
        offset=message.queue_offset,
        born_ms=message.born_timestamp,
        check_count=check_count_of(message),
        immunity_ms=immunity_ms,
        first_offset=_number(properties.get(Property.PREPARED_QUEUE_OFFSET)),
    )


def group_of(message: StoredMessage) -> str:
    return message.properties.get(Property.PRODUCER_GROUP, "")


def check_count_of(message: StoredMessage) -> int:
    return _number(message.properties.get(Property.TRANSACTION_CHECK_TIMES)) or 0


def _number(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > _DIGITS_MAX:
        return None
    return int(text)
