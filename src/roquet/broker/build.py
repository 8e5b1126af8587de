"""The parts of a broker, put together.

`_subscribe` lists everything that follows from the two events of the log: it is safe up to a new
end (the disk and the replicas that are awaited have it), and the log of a slave has grown.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from roquet.broker.broker import Access, Background, Broker, Clients, WaitingMessages
from roquet.broker.delays.delays import loaded_delays
from roquet.broker.delays.delivering import save_progress
from roquet.broker.loading import (
    WITHOUT_REPLICAS,
    LoadedTable,
    PortContext,
    StartState,
    adopt_apache_timers,
    close_store,
    is_loaded,
    load_table_log,
    opened_store,
    port_context_of,
)
from roquet.broker.messages.acks import AckQueue
from roquet.broker.messages.appending import LateSends, Messages, refused_writes_log, take_copied
from roquet.broker.messages.expiry import Expiry
from roquet.broker.messages.long_polling import LongPolls
from roquet.broker.pop.ack_turn import AckTurn
from roquet.broker.pop.journal import PopJournal
from roquet.broker.pop.journal_writing import JournalForm
from roquet.broker.registration import NOTICE_ROUTES, Registrar, identity_of
from roquet.broker.replication.master import SlaveLinks
from roquet.broker.replication.other_brokers import OtherBrokers
from roquet.broker.replication.replica_progress import ReplicaProgress
from roquet.broker.replication.replication import Replication
from roquet.broker.replication.table_log import LoggedTables, RecordForm, TableLog
from roquet.broker.replication.table_sync import SlaveTables
from roquet.broker.settings.apache_keys import change_config, changeable_texts
from roquet.broker.settings.config import BrokerConfig, Pauses
from roquet.broker.tables.clients import ClientConnection, Consumers, Producers
from roquet.broker.tables.durable_state import ProgressTables, new_progress
from roquet.broker.tables.groups import GroupTable
from roquet.broker.tables.offsets import OffsetTable
from roquet.broker.tables.past_members import PastMembers
from roquet.broker.tables.queue_locks import LockTable
from roquet.broker.tables.request_modes import RequestModes
from roquet.broker.tables.saving import Saver
from roquet.broker.tables.statistics import Statistics
from roquet.broker.tables.tables import Savers, Tables
from roquet.broker.tables.topics import TopicTable, built_in_topics
from roquet.broker.transactions.pending_halves import PendingHalves
from roquet.clock import Clock
from roquet.disk import Disk
from roquet.net.address_server import read_source
from roquet.net.addresses import ip_of, reachable_host
from roquet.net.errors import UnknownHost
from roquet.net.peers import Peers
from roquet.net.router import Router
from roquet.net.service import Services
from roquet.net.tls.contexts import ServerTls
from roquet.protocol.bodies.topics import TopicConfigTable
from roquet.protocol.host import pack_host
from roquet.protocol.messages.message import Property
from roquet.protocol.templates.send_reply import SendReplyTemplate
from roquet.settings import changes
from roquet.settings.changes import ChangedSettings
from roquet.state_file import StateFile
from roquet.store.config import FlushMode
from roquet.store.replica_log import Grown

if TYPE_CHECKING:
    from roquet.access.account_store import AccountStore
    from roquet.access.guard import AccessGuard
    from roquet.access.user_store import UserStore


class LogEvents:
    """Subscribers are called in their order; they are known once the broker is built."""

    def __init__(self) -> None:
        self.on_safe: tuple[Callable[[int], None], ...] = ()
        self.on_grown: tuple[Callable[[Grown], None], ...] = ()

    def safe(self, end: int) -> None:
        for follow in self.on_safe:
            follow(end)

    def grown(self, grown: Grown) -> None:
        for follow in self.on_grown:
            follow(grown)


def build_broker(
    config: BrokerConfig,
    clock: Clock,
    disk: Disk,
    stack: AsyncExitStack,
    start: StartState = WITHOUT_REPLICAS,
) -> Broker:
    """The broker with its tables loaded and its store open."""
    secret = start.secret
    ports = start.ports or port_context_of(config, clock)
    tls = ports.tls
    accounts, users = _opened_rules(config, clock, disk)
    lost: set[str] = set()

    def kept(name: str, table: LoadedTable) -> Saver:
        file = StateFile(disk, config.store.layout.config / name)
        if not is_loaded(file, name, table):
            lost.add(name)
        saver = Saver(name, file, table)
        stack.push_async_callback(saver.until_saved)
        return saver

    changed_settings = ChangedSettings(changeable_texts(config))
    settings_saver = kept(changes.FILE_NAME, changed_settings)
    config = changed_settings.applied_to(config, change_config)
    topics = TopicTable(clock, built_in_topics(config), has_epochs=secret is not None)
    groups = GroupTable(clock, has_epochs=secret is not None)
    offsets = _offsets(config)
    progress = new_progress(offsets.transactions, offsets.pops)
    past_members = PastMembers(clock)
    request_modes = RequestModes()
    savers = Savers(
        topics=kept("topics.json", topics),
        groups=kept("subscriptionGroup.json", groups),
        offsets=kept("consumerOffset.json", offsets),
        levels=kept("delayOffset.json", progress.levels),
        timers=kept("timers.json", progress.timers),
        past_members=kept("pastMembers.json", past_members),
        request_modes=kept("messageRequestMode.json", request_modes),
        settings=settings_saver,
    )
    topics.check_attributes()
    adopt_apache_timers(progress.timers, disk, config.store.layout.config / "timercheck")
    tables = Tables(topics, groups, offsets, request_modes, changed_settings, savers)
    events = LogEvents()
    replicas = _replica_progress(config, clock, lambda: store.log_end)
    acks = AckQueue(
        clock,
        config.sync_timeout_ms / 1000,
        is_awaited=config.store.flush_mode is FlushMode.SYNC,
        on_safe=events.safe,
        # With epochs, another broker may become the master.
        replicas=replicas if config.waits_for_slaves or secret is not None else None,
        replica_timeout_s=config.slave_timeout_ms / 1000,
        on_replica_awaited=lambda: replication.slave_links.wake(),  # noqa: PLW0108  Made below.
    )
    long_polls = LongPolls(clock, on_awaited=acks.release_soon)
    stack.callback(long_polls.close)
    stack.callback(acks.close)
    store = opened_store(config, clock, disk, acks, start)
    progress.truncate(store.log_end)
    pops = PopJournal(store, offsets, clock, _journal_form(config))
    waiting = WaitingMessages(
        loaded_delays(store, clock, config.store.delay_levels_ms, progress),
        PendingHalves(store, offsets),
        pops,
        AckTurn(pops, acks),
        progress,
    )
    stack.callback(lambda: close_store(broker))
    table_log = TableLog(store, LoggedTables(topics, groups, offsets), _form(config))
    load_table_log(config, table_log, start, lost)
    # Not only after a crash: a disk may lose the end of a log that was closed, too.
    offsets.cut_back(store.max_offset)
    _load(waiting, config)
    peers = _peers(tls, clock, stack, lambda: registrar.refresh_soon())  # noqa: PLW0108  Made below.
    registrar = _registrar(config, peers, clock, lambda: broker)
    _save_on_change(tables, progress, registrar)
    services = Services(config.broker_name)
    replication = Replication(
        config,
        clock,
        store,
        slave_links=SlaveLinks(config, clock, store, replicas, services, secret=secret, tls=tls),
        others=_others(config, peers, registrar),
        tables=SlaveTables(topics, groups, offsets, request_modes, progress),
        table_log=table_log,
        on_grown=events.grown,
    )
    statistics = Statistics(clock, config.cluster_name)
    broker = Broker(
        config=config,
        clock=clock,
        store=store,
        tables=tables,
        clients=_clients(config, clock, past_members, savers.past_members),
        messages=Messages(
            store=store,
            statistics=statistics,
            acks=acks,
            long_polls=long_polls,
            late_sends=LateSends(clock, config.send_wait_s_max),
            refused_writes=refused_writes_log(clock),
            expiry=Expiry(store, clock, lambda: broker.config.store),
            store_host=_store_host(config),
            cluster_property=f"{Property.CLUSTER}\x01{config.cluster_name}".encode(),
            send_reply=_send_reply(config),
            has_checksums=config.store.write_checksums,
        ),
        waiting=waiting,
        replication=replication,
        registrar=registrar,
        access=_access(config, clock, ports, accounts, users),
        statistics=statistics,
        background=Background(services, Pauses()),
    )
    _subscribe(events, broker)
    return broker


def _opened_rules(
    config: BrokerConfig, clock: Clock, disk: Disk
) -> "tuple[AccountStore | None, UserStore | None]":
    """Raises BadRules and RulesNotSaved."""
    if not (config.access_control or config.authentication or config.authorization):
        return None, None
    # A broker without access control does not pay for loading it.
    from roquet.access.account_store import open_account_store  # noqa: PLC0415
    from roquet.access.user_store import FILE_NAME, open_user_store  # noqa: PLC0415

    users_path = config.users_file or config.store.layout.config / FILE_NAME
    return open_account_store(config, disk, clock), open_user_store(config, users_path, disk)


def _access(
    config: BrokerConfig,
    clock: Clock,
    ports: PortContext,
    accounts: "AccountStore | None",
    users: "UserStore | None",
) -> Access:
    return Access(
        tls=ports.tls,
        connection_budget=ports.connection_budget,
        accounts=accounts,
        users=users,
        guard=_guard(config, clock, accounts, users),
    )


def _guard(
    config: BrokerConfig,
    clock: Clock,
    accounts: "AccountStore | None",
    users: "UserStore | None",
) -> "AccessGuard | None":
    if accounts is None and users is None:
        return None
    # Loaded only when needed.
    from roquet.access.guard import AccessGuard, GuardedUsers  # noqa: PLC0415

    guarded = users and GuardedUsers(
        store=users,
        cluster_name=config.cluster_name,
        authorization=config.authorization,
        unauthenticated=config.unauthenticated_codes,
        unauthorized=config.unauthorized_codes,
    )
    return AccessGuard(accounts, clock, guarded)


def _subscribe(events: LogEvents, broker: Broker) -> None:
    events.on_safe = (
        partial(_show_confirmed, broker),
        broker.messages.long_polls.log_is_safe,
        partial(_save_progress, broker),
        partial(_report_to_master, broker),
    )
    events.on_grown = (
        partial(take_copied, broker.messages, broker.tables, broker.replication),
        partial(_save_progress, broker),
    )


def _show_confirmed(broker: Broker, _end: int) -> None:
    """Readers of a SYNC_MASTER see what its slaves have confirmed."""
    if broker.config.waits_for_slaves:
        broker.store.hold_back(broker.replication.replicas.shown_end)


def _save_progress(broker: Broker, _event: object) -> None:
    """Deliveries that were on their way to the disk or to replicas may be saved now."""
    save_progress(broker.waiting.progress, broker.replication)


def _report_to_master(broker: Broker, _end: int) -> None:
    """A slave confirms what its own disk has."""
    if broker.replication.master_link is not None:
        broker.replication.master_link.report_soon()


def _registrar(
    config: BrokerConfig, peers: Peers, clock: Clock, broker: Callable[[], Broker]
) -> Registrar:
    return Registrar(
        peers,
        clock,
        read_source(";".join(config.name_servers)).addresses,
        identity_of(config),
        lambda: _registered_topics(broker()),
        timeout_s=lambda: broker().config.register_timeout_ms / 1000,
        account=config.own_account,
    )


def _others(config: BrokerConfig, peers: Peers, registrar: Registrar) -> OtherBrokers:
    identity = identity_of(config)
    return OtherBrokers(peers, config.own_account, identity, lambda: registrar.name_servers)


def _offsets(config: BrokerConfig) -> OffsetTable:
    return OffsetTable(
        is_slave=config.is_slave,
        count_max=config.offset_count_max,
        cluster_name=config.cluster_name,
    )


def _clients(
    config: BrokerConfig, clock: Clock, past_members: PastMembers, saver: Saver
) -> Clients:
    past_members.on_change = saver.save_soon
    return Clients(
        Consumers[ClientConnection](
            config.membership_count_max, config.subscription_size_max, on_left=past_members.note
        ),
        Producers[ClientConnection](config.membership_count_max),
        LockTable(clock, config.lock_count_max),
        past_members,
    )


def _replica_progress(
    config: BrokerConfig, clock: Clock, log_end: Callable[[], int]
) -> ReplicaProgress:
    return ReplicaProgress(
        config.ha_lag_size_max,
        log_end,
        slaves_needed=config.replicas_needed - 1,
        now_s=clock.monotonic_s,
    )


def _registered_topics(broker: Broker) -> TopicConfigTable:
    """With the epoch: a name server does not give the place of a master to an earlier one."""
    table = broker.tables.topics.registered(broker.config.permission)
    version = replace(table.data_version, state_version=broker.replication.epoch)
    return replace(table, data_version=version)


def _save_on_change(tables: Tables, progress: ProgressTables, registrar: Registrar) -> None:
    savers = tables.savers
    tables.topics.on_change = partial(_save_and_register, savers.topics, registrar)
    tables.groups.on_change = savers.groups.save_soon
    tables.request_modes.on_change = savers.request_modes.save_soon
    progress.levels.on_change = savers.levels.save_soon
    progress.timers.on_change = savers.timers.save_soon


def _save_and_register(topic_saver: Saver, registrar: Registrar) -> None:
    """Topics have changed."""
    topic_saver.save_soon()
    registrar.refresh_soon()


def _peers(
    tls: ServerTls, clock: Clock, stack: AsyncExitStack, refresh: Callable[[], None]
) -> Peers:
    """`refresh` is called when a name server has a notice."""
    peers = Peers(Router(refresh, NOTICE_ROUTES), clock, tls=tls.outgoing)
    stack.push_async_callback(peers.close)
    return peers


def _send_reply(config: BrokerConfig) -> SendReplyTemplate:
    return SendReplyTemplate(_store_host(config), config.region_id, is_traced=config.trace_on)


def _form(config: BrokerConfig) -> RecordForm:
    return RecordForm(_store_host(config), has_checksum=config.store.write_checksums)


def _load(waiting: WaitingMessages, config: BrokerConfig) -> None:
    waiting.pending_halves.load()
    if not config.is_slave:
        # A slave loads them when it becomes the master.
        waiting.pops.load()


def _journal_form(config: BrokerConfig) -> JournalForm:
    return JournalForm(
        config.cluster_name,
        config.broker_name,
        _store_host(config),
        has_checksum=config.store.write_checksums,
    )


def _store_host(config: BrokerConfig) -> bytes:
    return pack_host(_store_ip(config), config.listen_port)


def _store_ip(config: BrokerConfig) -> str:
    """The address in records and message ids, which cannot hold a host name."""
    try:
        return ip_of(config.advertised_host or config.bind_host)
    except UnknownHost:
        # A name that only clients can resolve, on the other side of a router.
        return ip_of(reachable_host(config.bind_host))
