"""Assembly and life of a broker, nothing else."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from roquet.access.guard import AccessGuard
from roquet.access.keeping import kept_accounts
from roquet.broker.broker import Broker
from roquet.broker.delays.loading import loaded_delays
from roquet.broker.delays.timers import TimerProgress, apache_progress
from roquet.broker.handlers import ROUTES
from roquet.broker.lane.lane import PlainLane
from roquet.broker.membership import connection_lost
from roquet.broker.messages.appending import announce_copied
from roquet.broker.messages.arrivals import Arrivals
from roquet.broker.messages.expiry import Expiry
from roquet.broker.messages.late_sends import LateSends
from roquet.broker.messages.refused_writes import RefusedWrites
from roquet.broker.messages.safety import Safety
from roquet.broker.messages.subscriptions import load_sql_filters
from roquet.broker.ports import FAST_PORT_DISTANCE, HA_PORT_DISTANCE
from roquet.broker.registration import Registrar, identity_of
from roquet.broker.replication.copies import Copies
from roquet.broker.replication.replication import Replication
from roquet.broker.replication.sending import SlaveLinks
from roquet.broker.replication.tables import SlaveTables
from roquet.broker.replication.trust import Trust
from roquet.broker.settings.apache_keys import change_config, changeable_texts
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.tables.clients import Consumers, Producers
from roquet.broker.tables.durable_state import DurableState
from roquet.broker.tables.ended_transactions import EndedTransactions
from roquet.broker.tables.groups import GroupTable
from roquet.broker.tables.offsets import OffsetTable
from roquet.broker.tables.queue_locks import LockTable
from roquet.broker.tables.saving import SavedTable, Saver
from roquet.broker.tables.statistics import Statistics
from roquet.broker.tables.topics import TopicTable, built_in_topics
from roquet.broker.transactions.pending_halves import PendingHalves
from roquet.broker.upkeep import learn, start_upkeep
from roquet.clock import Clock
from roquet.disk import Disk
from roquet.net.address_server import AddressServer, read_source
from roquet.net.connection import Connection
from roquet.net.crowd import Crowd
from roquet.net.errors import UnknownHost
from roquet.net.own_addresses import ip_of, is_loopback, reachable_host
from roquet.net.peers import Peers
from roquet.net.ports import at_free_port
from roquet.net.router import RequestRoute, Router
from roquet.net.service import OnFailure, Services
from roquet.net.serving import Server
from roquet.net.tls.contexts import ServerTls
from roquet.protocol.bodies.offset_table import DelayOffsetTable
from roquet.protocol.bodies.topic_config import TopicConfigTable
from roquet.protocol.codes import RequestCode
from roquet.protocol.host import Address, pack_host
from roquet.protocol.messages.message import Property
from roquet.protocol.prepared.send_reply import SendReplyTemplate
from roquet.settings import changes
from roquet.settings.changes import ChangedSettings
from roquet.settings.log_level import obey_log_level_from_start
from roquet.state_file import BadStateFile, StateFile
from roquet.store.checksummed import NO_END
from roquet.store.config import FlushMode
from roquet.store.message_store import MessageStore

log = logging.getLogger(__name__)

_PULLS: Final = frozenset((RequestCode.PULL_MESSAGE, RequestCode.LITE_PULL_MESSAGE))
# The fast port is for what answers at once.
_FAST_ROUTES: Final = tuple(route for route in ROUTES if route.code not in _PULLS)


@asynccontextmanager
async def serve_broker(
    config: BrokerConfig,
    clock: Clock,
    disk: Disk,
    trust: Trust | None = None,
    *,
    cut_end: int = NO_END,
) -> AsyncIterator[Broker]:
    """A broker that answers while the block runs; `config.listen_port` is the port it got.

    When `broker.safety.has_failed` is set, it has to stop; `life` serves those that may have to
    begin again. What the log has behind `cut_end` is cut off. Raises StoreError, StateFileError,
    AttributeNotKept, TlsNotUsable, BadRules, and OSError, NoFreePort or UnknownHost when an address
    cannot be had.
    """
    ip_of(config.bind_host)
    config = replace(
        config, advertised_host=config.advertised_host or reachable_host(config.bind_host)
    )

    async def start(port: int) -> tuple[Broker, AsyncExitStack]:
        beginning = Beginning(trust, cut_end)
        return await _started(replace(config, listen_port=port), clock, disk, beginning)

    if config.listen_port:
        broker, running = await start(config.listen_port)
    else:
        neighbours = (FAST_PORT_DISTANCE, HA_PORT_DISTANCE)
        broker, running = await at_free_port(config.bind_host, start, neighbours)
    async with running:
        yield broker
        log.info("%s stops", config.broker_name)


class Beginning(NamedTuple):
    """What a broker begins with, besides its settings."""

    trust: Trust | None = None
    cut_end: int = NO_END


_WITHOUT_REPLICAS: Final = Beginning()


async def _started(
    config: BrokerConfig, clock: Clock, disk: Disk, beginning: Beginning = _WITHOUT_REPLICAS
) -> tuple[Broker, AsyncExitStack]:
    """A broker that answers, and what ends it."""
    # What is put on the stack ends in the opposite order: first nobody finds the broker any
    # more, then nobody is served, then everything is saved.
    async with AsyncExitStack() as stack:
        broker = assembled(config, clock, disk, stack, beginning)
        obey_log_level_from_start(broker.config.log_level)
        if broker.config.sql_filters:
            load_sql_filters()
        await stack.enter_async_context(broker.services)
        start_upkeep(broker)
        listeners = [
            _listener(broker, ROUTES, has_pulls=True),
            _listener(broker, _FAST_ROUTES, has_pulls=False),
        ]

        async def stop_serving() -> None:
            # Both in one turn of the loop: nobody who was answered can ask again.
            broker.arrivals.close()
            await asyncio.gather(*(listener.stop() for listener in listeners))

        stack.push_async_callback(stop_serving)
        slave_links = broker.replication.slave_links
        if broker.guard is not None:
            slave_links.may_follow = broker.guard.may_copy
        if not config.is_slave:
            slave_links.start(config.bind_host, config.ha_port)
        stack.callback(slave_links.stop)
        for listener, distance in zip(listeners, (0, FAST_PORT_DISTANCE), strict=True):
            await listener.start(config.bind_host, config.listen_port + distance)
        await _find_name_servers(broker)
        learn(broker, await broker.registrar.register())
        stack.push_async_callback(broker.registrar.unregister)
        _tell_address(config)
        return broker, stack.pop_all()


async def _find_name_servers(broker: Broker) -> None:
    """If there is a server that names them, now and again and again."""
    url = read_source(";".join(broker.config.name_servers)).url
    if url is not None:
        server = AddressServer(url, broker.registrar.use)
        await server.ask()
        broker.services.run("find name servers", server.keep_asking, on_failure=OnFailure.RESTART)


def _tell_address(config: BrokerConfig) -> None:
    place = Address(config.bind_host, config.listen_port)
    advertised = Address(config.advertised_host or config.bind_host, config.listen_port)
    if advertised == place:
        log.info("%s serves at %s", config.broker_name, place)
        return
    log.info("%s serves at %s, clients are told %s", config.broker_name, place, advertised)
    if is_loopback(place.ip) and not is_loopback(advertised.ip):
        log.warning(
            "only this machine is listened to, but clients are told %s: to serve others, set "
            "bindAddress, or give --host",
            advertised,
        )


def _listener(broker: Broker, routes: Sequence[RequestRoute[Broker]], *, has_pulls: bool) -> Server:
    # The lane asks nobody, so a guarded broker has none.
    lane = PlainLane(broker, has_pulls=has_pulls) if broker.guard is None else None
    return Server(
        Router(broker, routes, broker.guard),
        broker.clock,
        limits=broker.config.limits,
        on_closed=lambda connection: connection_lost(broker, connection),
        lane=lane,
        tls=broker.tls,
        crowd=broker.crowd,
    )


class _LoadedTable(SavedTable, Protocol):
    def load(self, data: bytes) -> list[str]: ...


def assembled(
    config: BrokerConfig,
    clock: Clock,
    disk: Disk,
    stack: AsyncExitStack,
    beginning: Beginning = _WITHOUT_REPLICAS,
) -> Broker:
    """The broker with its tables loaded and its store open."""
    trust = beginning.trust
    tls = ServerTls(config.tls, clock)
    accounts = kept_accounts(config, disk, clock)
    lost: set[str] = set()

    def kept(name: str, table: _LoadedTable) -> Saver:
        file = StateFile(disk, config.store.layout.config / name)
        if not _is_loaded(file, name, table):
            lost.add(name)
        saver = Saver(name, file, table)
        stack.push_async_callback(saver.until_saved)
        return saver

    changed_settings = ChangedSettings(changeable_texts(config))
    settings_saver = kept(changes.FILE_NAME, changed_settings)
    config = changed_settings.applied_to(config, change_config)
    settings_saver.save_soon()  # What was forgotten must not come back.
    topics = TopicTable(clock, built_in_topics(config))
    groups = GroupTable(clock)
    offsets = OffsetTable(is_slave=config.is_slave)
    topic_saver = kept("topics.json", topics)
    topics.check_promises()
    group_saver = kept("subscriptionGroup.json", groups)
    offset_saver = kept("consumerOffset.json", offsets)
    delay_state = DurableState(DelayOffsetTable())
    delay_saver = kept("delayOffset.json", delay_state)
    timer_state = DurableState(TimerProgress())
    timer_saver = kept("timers.json", timer_state)
    _adopt_apache_timers(timer_state, disk, config.store.layout.config / "timercheck")
    copies = _copies(config, clock, lambda: store.log_end)
    safety = Safety(
        clock,
        config.sync_timeout_ms / 1000,
        is_awaited=config.store.flush_mode is FlushMode.SYNC,
        on_safe=lambda end: _log_is_safe(broker, end),
        copies=copies if config.waits_for_slaves or config.etcd else None,
        copy_timeout_s=config.slave_timeout_ms / 1000,
        on_copy_awaited=lambda: replication.slave_links.wake(),  # noqa: PLW0108  Made below.
    )
    arrivals = Arrivals(clock, on_awaited=safety.settle_soon)
    stack.callback(arrivals.close)
    stack.callback(safety.close)
    store = _opened_store(config, clock, disk, safety, beginning)
    pending_halves = PendingHalves(store, offsets)
    delays = loaded_delays(store, clock, config.store.delay_levels_ms, delay_state, timer_state)
    stack.callback(lambda: _close_store(broker))
    if "topics.json" in lost:
        _make_again(topics, topic_saver, store)
    # Not only after a crash: a disk may lose the end of a log that was closed, too.
    offsets.cut_back(store.max_offset)
    pending_halves.load()
    peers = _peers(tls, clock, stack)
    registrar = _registrar(config, peers, clock, lambda: broker)
    topics.on_change = partial(_save_and_tell, topic_saver, registrar)
    groups.on_change = group_saver.save_soon
    delay_state.on_change = delay_saver.save_soon
    timer_state.on_change = timer_saver.save_soon
    services = Services(config.broker_name)
    replication = Replication(
        config,
        clock,
        store,
        slave_links=SlaveLinks(config, clock, store, copies, services, trust=trust, tls=tls),
        peers=peers,
        tables=SlaveTables(topics, groups, offsets, delay_state),
        on_grown=lambda grown: announce_copied(broker, grown),
        trust=trust,
    )
    broker = Broker(
        config=config,
        clock=clock,
        disk=disk,
        store=store,
        topics=topics,
        groups=groups,
        offsets=offsets,
        consumers=Consumers[Connection](),
        producers=Producers[Connection](),
        locks=LockTable(clock),
        arrivals=arrivals,
        safety=safety,
        expiry=Expiry(store, clock, lambda: broker.config.store),
        refused_writes=RefusedWrites(clock),
        late_sends=LateSends(clock, config.send_wait_s_max),
        delays=delays,
        pending_halves=pending_halves,
        registrar=registrar,
        statistics=Statistics(clock, config.cluster_name),
        ended_transactions=EndedTransactions(),
        topic_saver=topic_saver,
        group_saver=group_saver,
        offset_saver=offset_saver,
        delay_saver=delay_saver,
        timer_saver=timer_saver,
        changed_settings=changed_settings,
        settings_saver=settings_saver,
        tls=tls,
        crowd=Crowd(clock, config.bounds),
        accounts=accounts,
        guard=None if accounts is None else AccessGuard(accounts, clock),
        services=services,
        replication=replication,
        store_host=_store_host(config),
        cluster_property=f"{Property.CLUSTER}\x01{config.cluster_name}".encode(),
        send_reply=SendReplyTemplate(
            _store_host(config), config.region_id, is_traced=config.trace_on
        ),
    )
    return broker


def _registrar(
    config: BrokerConfig, peers: Peers, clock: Clock, broker: Callable[[], Broker]
) -> Registrar:
    return Registrar(
        peers,
        clock,
        read_source(";".join(config.name_servers)).addresses,
        identity_of(config),
        lambda: _announced(broker()),
        timeout_s=lambda: broker().config.register_timeout_ms / 1000,
        account=config.own_account,
    )


def _copies(config: BrokerConfig, clock: Clock, log_end: Callable[[], int]) -> Copies:
    return Copies(
        config.ha_lag_size_max,
        log_end,
        slaves_needed=config.copies_needed - 1,
        now_s=clock.monotonic_s,
    )


def _announced(broker: Broker) -> TopicConfigTable:
    """With the epoch: a name server does not give the place of a master to an earlier one."""
    table = broker.topics.announced(broker.config.permission)
    version = replace(table.data_version, state_version=broker.replication.epoch)
    return replace(table, data_version=version)


def _save_and_tell(topic_saver: Saver, registrar: Registrar) -> None:
    """Topics have changed."""
    topic_saver.save_soon()
    registrar.refresh_soon()


def _log_is_safe(broker: Broker, end: int) -> None:
    """More of the log than before is, up to `end`."""
    replication = broker.replication
    if broker.config.waits_for_slaves:
        broker.store.hold_back(replication.copies.shown_end)
    broker.arrivals.log_is_safe(end)
    if replication.master_link is not None:
        replication.master_link.report_soon()


def _peers(tls: ServerTls, clock: Clock, stack: AsyncExitStack) -> Peers:
    peers = Peers(Router(None, ()), clock, tls=tls.outgoing)
    stack.push_async_callback(peers.close)
    return peers


def _store_host(config: BrokerConfig) -> bytes:
    return pack_host(_store_ip(config), config.listen_port)


def _store_ip(config: BrokerConfig) -> str:
    """What records and message ids say, which have no room for a name."""
    try:
        return ip_of(config.advertised_host or config.bind_host)
    except UnknownHost:
        # A name that only clients can look up, at the other side of a router.
        return ip_of(reachable_host(config.bind_host))


def _is_loaded(file: StateFile, name: str, table: _LoadedTable) -> bool:
    """A table that cannot be read is no reason not to serve the log. Raises StateNotSaved."""
    try:
        left_out = file.load(table.load) or ()
    except BadStateFile as error:
        log.error("starting without %s, kept as %s.damaged: %s", name, name, error)  # noqa: TRY400  It says it all.
        file.set_aside()
        return False
    for each in left_out:
        log.warning("%s: left out %r, which cannot be a name", name, each)
    return True


def _make_again(topics: TopicTable, saver: Saver, store: MessageStore) -> None:
    saver.save_soon()
    for topic in topics.restore(store.queues()):
        log.warning("made topic %s again, after its queues", topic)


def _adopt_apache_timers(state: DurableState[TimerProgress], disk: Disk, path: Path) -> None:
    """What an Apache broker of 5.x delivered before us; what it does not say comes twice."""
    if state.value != TimerProgress():
        return
    try:
        state.value = StateFile(disk, path).load(apache_progress) or TimerProgress()
    except BadStateFile as error:
        log.warning("timers may come again: %s", error)


def _opened_store(
    config: BrokerConfig, clock: Clock, disk: Disk, safety: Safety, beginning: Beginning
) -> MessageStore:
    trust, cut_end = beginning
    store = MessageStore.open(config.store, clock, disk, safety, cut_end=cut_end)
    if trust is not None:
        if cut_end != NO_END:
            trust.epochs.cut(store.log_end)
        if not config.is_slave:
            # Always a new one: slaves may have what was written last, and this store may not.
            trust.epochs.begin(trust.epochs.seen + 1, store.log_end)
    report = store.recovery
    assert report is not None
    log.info(
        "%s %s: %d records from %d to %d looked at",
        "opened" if report.was_clean else "recovered after a crash",
        config.store.root,
        report.record_count,
        report.scanned_from,
        report.log_end,
    )
    if report.lost_notes:
        log.warning(
            "which records were written with checksums is not known any more: %s", report.lost_notes
        )
    if report.cut_size:
        log.warning(
            "cut off %d bytes past the end of the log at %d: %s; %s",
            report.cut_size,
            report.log_end,
            report.cut_reason,
            f"they are kept in {report.cut_path}"
            if report.cut_path
            else "the disk has no space to keep them",
        )
    for damage in report.damages:
        log.error("damaged part of the log: %s", damage)
    store.start()
    return store


def _close_store(broker: Broker) -> None:
    store, delays = broker.store, broker.delays
    try:
        store.close()
    finally:
        # What a slave knows of these it has from its master.
        if not broker.config.is_slave:
            # Now everything is on disk, or what the store could save of it.
            delays.confirm(store.synced_end)
            delays.propose()
            delays.confirm(store.synced_end)
            broker.pending_halves.commit_progress()
