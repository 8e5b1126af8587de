"""What a broker does without a request: periodic work, and the promotion of a slave in place."""

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import Final

from roquet.broker.broker import Broker
from roquet.broker.delays.delays import loaded_delays
from roquet.broker.delays.delivering import count_waiting, deliver_delayed, save_progress
from roquet.broker.errors import TableNotWritten
from roquet.broker.membership import disable_slow_groups, expire_clients
from roquet.broker.messages.expiry import Expiry
from roquet.broker.pop.redelivery import redeliver_due
from roquet.broker.registration import Registered, identity_of
from roquet.broker.replication import table_sync
from roquet.broker.replication.replication import Replication
from roquet.broker.tables.queue_locks import LockTable
from roquet.broker.transactions.check_back import keep_checking
from roquet.net.service import OnFailure
from roquet.store.errors import StoreUnavailable
from roquet.store.message_store import MessageStore

log = logging.getLogger(__name__)

_TICK_S: Final = 1.0
_FILING_REST_S: Final = 0.01
_FIRST_SAVE_MS: Final = 100
_LOOK_FOR_MASTER_S: Final = 3.0
_EXPIRE_PERIOD_S: Final = 10.0
_CLEAN_PERIOD_S: Final = 10.0
_FORGET_LOCKS_PERIOD_S: Final = 60.0
_SLOW_GROUPS_PERIOD_S: Final = 180.0
# At this pace a terabyte takes a year of uptime, at no noticeable cost.
_SCRUB_PERIOD_S: Final = 30.0
_SCRUB_SIZE: Final = 1 << 20


def start_upkeep(broker: Broker) -> None:
    """Everything ends with `broker.background.services`."""
    run, every = broker.background.services.run, broker.background.services.every
    for saver in broker.tables.savers.all:
        # What was loaded may have changed since: settings that must not come back, topics that
        # the log knew and their file did not.
        saver.save_soon()
        run("save a table", saver.keep_saved, on_failure=OnFailure.RESTART)
    run("stay registered", lambda: _stay_registered(broker), on_failure=OnFailure.RESTART)
    if broker.config.is_slave:
        start_following(broker)
    else:
        start_leading(broker)
    if broker.access.accounts is not None:
        looking = broker.access.accounts.watch
        run("look at accounts", looking, on_failure=OnFailure.RESTART)
    if broker.access.users is not None:
        run("look at users", broker.access.users.watch, on_failure=OnFailure.RESTART)
    every("tick", _TICK_S, lambda: _tick(broker))
    run("file keys", lambda: _file_keys(broker.store), on_failure=OnFailure.RESTART)
    run("save offsets", lambda: _save_offsets(broker), on_failure=OnFailure.RESTART)
    every("expire clients", _EXPIRE_PERIOD_S, lambda: _expire(broker))
    every("forget locks", _FORGET_LOCKS_PERIOD_S, lambda: _forget_locks(broker.clients.locks))
    every("clean", _CLEAN_PERIOD_S, lambda: _clean(broker.messages.expiry))
    every("disable slow groups", _SLOW_GROUPS_PERIOD_S, lambda: _disable_slow_groups(broker))
    if broker.messages.late_sends.is_watched:
        run(
            "note that the loop runs",
            broker.messages.late_sends.keep_noting,
            on_failure=OnFailure.RESTART,
        )
    every("scrub", _SCRUB_PERIOD_S, lambda: _scrub(broker.store))


def start_following(broker: Broker) -> None:
    """What a slave does, until `replication.stop_following`."""
    replication, run = broker.replication, broker.background.services.run
    link = replication.master_link
    assert link is not None, "a slave has one"
    replication.following = [
        run("follow the master", link.follow, on_failure=OnFailure.RESTART),
        run("copy tables", lambda: _copy_tables(broker.replication), on_failure=OnFailure.RESTART),
        run("copy offsets", lambda: _copy_offsets(broker), on_failure=OnFailure.RESTART),
    ]


def start_leading(broker: Broker) -> None:
    """What only a master does."""
    run = broker.background.services.run
    run(
        "deliver",
        partial(deliver_delayed, broker.messages, broker.waiting.delays, broker.clock),
        on_failure=OnFailure.RESTART,
    )
    levels = broker.waiting.delays.levels
    broker.background.services.every("count waiting", _TICK_S, partial(count_waiting, levels))
    run("check transactions", lambda: keep_checking(broker), on_failure=OnFailure.RESTART)
    run("redeliver pops", lambda: redeliver_due(broker), on_failure=OnFailure.RESTART)
    run("note progress", lambda: _note_progress(broker), on_failure=OnFailure.RESTART)
    replication = broker.replication
    if replication.secret is not None and not broker.config.etcd:
        # With etcd, its lease shows that.
        replication.succession.begin()
        replication.others.on_unknown = broker.registrar.refresh_soon
        replication.replicas.may_acknowledge = replication.succession.may_acknowledge
        run("watch for a successor", lambda: _watch(broker), on_failure=OnFailure.RESTART)


def learn(broker: Broker, answers: list[Registered]) -> None:
    """What the name servers know and this broker does not: its master, which topics are ordered."""
    if broker.config.is_slave:
        # Where there is etcd, it knows better.
        for answer in answers if not broker.config.etcd else ():
            # One that is away for a moment will be where it was.
            if answer.master_address is not None:
                broker.replication.master_address = answer.master_address
                broker.replication.master_ha_address = answer.master_ha_address
    elif answers:
        try:
            broker.tables.topics.set_ordered(
                frozenset().union(*(each.order_topics for each in answers))
            )
        except TableNotWritten as refused:
            log.warning("which topics are ordered is taken over later: %s", refused.remark)


async def _watch(broker: Broker) -> None:
    """For another master of this name. One of the same epoch stops messages, not readers."""
    replication = broker.replication

    def heed_rival() -> None:
        if replication.refusal_reason is None:
            broker.store.go_on()
            log.warning("messages are taken again: no other master of this epoch is registered")
        else:
            broker.store.pause()
            log.error("messages are refused: %s", replication.refusal_reason)

    await replication.succession.watch(replication.step_down, heed_rival)


async def _stay_registered(broker: Broker) -> None:
    await broker.registrar.keep_registered(
        lambda: _register_period_s(broker), lambda answers: learn(broker, answers)
    )


def _register_period_s(broker: Broker) -> float:
    period_s = broker.config.register_interval_ms / 1000
    is_lost = broker.config.is_slave and broker.replication.master_address is None
    return min(period_s, _LOOK_FOR_MASTER_S) if is_lost else period_s


async def _tick(broker: Broker) -> None:
    broker.statistics.tick()
    broker.store.relieve()
    broker.tables.offsets.trim()
    broker.messages.refused_writes.flush()
    broker.replication.log_shortage()
    if broker.access.guard is not None:
        broker.access.guard.tick()
    save_progress(broker.waiting.progress, broker.replication)


async def _file_keys(store: MessageStore) -> None:
    is_refused = False
    while True:
        try:
            is_all_filed = store.file_keys()
            is_refused = False
        except StoreUnavailable as error:
            # What is not filed is found all the same, so one log line is enough.
            if not is_refused:
                log.warning("keys are not filed: %s", error)
            is_refused = is_all_filed = True
        # In a backlog, others have their turn for as long as one step takes.
        await asyncio.sleep(_TICK_S if is_all_filed else _FILING_REST_S)


async def _save_offsets(broker: Broker) -> None:
    """Soon after the start, then each time after twice as long, up to the interval.

    A broker that is killed again and again before its first interval is over would send its groups
    back to the same offsets each time. So it loses at most what came in half of its uptime.
    """
    age_ms = _FIRST_SAVE_MS

    def pause_ms() -> int:
        return min(age_ms, broker.config.save_offsets_interval_ms)

    while True:
        await broker.background.pauses.pause(pause_ms)
        age_ms += pause_ms()
        if not broker.config.is_slave:
            broker.waiting.pending_halves.commit_progress(broker.replication.safe_end)
            broker.waiting.pops.commit_progress(broker.replication.safe_end)
        broker.tables.savers.offsets.save_soon()


async def _copy_tables(replication: Replication) -> None:
    while True:
        replication.tables_wanted.clear()
        have_come = await replication.table_sync.sync()
        if have_come:
            # A slave that catches up may want them again and again.
            await asyncio.sleep(table_sync.PAUSE_S_MIN)
        with suppress(TimeoutError):
            async with asyncio.timeout(
                table_sync.PERIOD_S if have_come else table_sync.RETRY_PAUSE_S
            ):
                await replication.tables_wanted.wait()


async def _copy_offsets(broker: Broker) -> None:
    """More rarely where there are so many that it takes its time."""
    took_s = 0.0
    while True:
        pause_s = max(table_sync.OFFSETS_PERIOD_S, took_s / table_sync.OFFSETS_TIME_SHARE)
        await asyncio.sleep(min(pause_s, table_sync.PERIOD_S))
        begin_s = broker.clock.monotonic_s()
        await broker.replication.table_sync.sync_offsets()
        await broker.replication.table_sync.sync_progress()
        save_progress(
            broker.waiting.progress, broker.replication
        )  # What the log has already need not wait for the next tick.
        took_s = broker.clock.monotonic_s() - begin_s


async def _note_progress(broker: Broker) -> None:
    """As soon as something is delivered; then each time after twice as long, up to the interval.

    A broker that is killed again and again before its first interval is over would deliver the same
    messages in each of its runs. What is delivered has to be on disk for that, too.
    """
    age_ms = _FIRST_SAVE_MS

    def pause_ms() -> int:
        return min(age_ms, broker.config.save_delays_interval_ms)

    while True:
        await broker.waiting.delays.until_delivered()
        broker.waiting.delays.propose()
        broker.store.sync_soon()
        await broker.background.pauses.pause(pause_ms)
        age_ms += pause_ms()


async def _expire(broker: Broker) -> None:
    expire_clients(broker)


async def _forget_locks(locks: LockTable) -> None:
    locks.forget_ended()


async def _clean(expiry: Expiry) -> None:
    try:
        expiry.clean()
    except StoreUnavailable as error:
        log.warning("old files are not removed: %s", error)


async def _disable_slow_groups(broker: Broker) -> None:
    disable_slow_groups(broker)


async def _scrub(store: MessageStore) -> None:
    try:
        report = store.scrub(_SCRUB_SIZE)
    except StoreUnavailable as error:
        log.warning("the log is not checked now: %s", error)
        return
    for damage in report.damages:
        log.error("damaged part of the log: %s", damage)
    if report.repaired_entries:
        log.warning("put %d queue entries right", report.repaired_entries)
    if report.is_round_over:
        log.debug("every record of the log was checked again")


def promote(broker: Broker, epoch: int) -> None:
    """A slave becomes the master, in the running process and without losing a connection.

    It takes messages from now on; replication from the former master is stopped. The way back is
    not here: a master that steps down may have to cut the end of its log, which only opening a
    store does. So it restarts in place (`supervisor`).

    Raises StateNotSaved, StoreUnavailable, and OSError when the port for slaves cannot be opened;
    then the broker has to restart.
    """
    replication, store = broker.replication, broker.store
    assert replication.secret is not None, "only a broker with epochs is promoted"
    replication.stop_following()
    # Before the first byte of the new epoch.
    replication.secret.epochs.begin(epoch, store.log_end)
    broker.config = broker.config.as_master(replication.secret.epochs.ack_rule)
    replication.lead(broker.config)
    broker.tables.offsets.lead()
    broker.tables.offsets.cut_back(store.max_offset)
    store.lead()
    # Changes that are in the log and were not in the last copies of the tables.
    broker.replication.table_log.apply(are_new=True)
    broker.replication.table_log.lead(epoch)
    # The master's progress counts as far as its log has arrived here.
    broker.waiting.progress.truncate(store.log_end)
    broker.waiting.pending_halves.load()
    broker.waiting.pops.load()
    broker.waiting.delays = loaded_delays(
        store, broker.clock, broker.config.store.delay_levels_ms, broker.waiting.progress
    )
    start_leading(broker)
    # At once: clients find it with their next route update.
    broker.registrar.identify(identity_of(broker.config))
    log.info("%s is the master of epoch %d now", broker.config.broker_name, epoch)
