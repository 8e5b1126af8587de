"""What the handlers of a broker work on. How it comes to life is said in `server.py`."""

import msgspec

from roquet.access.account_store import AccountStore
from roquet.access.guard import AccessGuard
from roquet.broker.delays.delays import Delays
from roquet.broker.messages.acks import AckQueue
from roquet.broker.messages.expiry import Expiry
from roquet.broker.messages.late_sends import LateSends
from roquet.broker.messages.long_polling import LongPolls
from roquet.broker.registration import Registrar
from roquet.broker.replication.replication import Replication
from roquet.broker.replication.table_log import TableLog
from roquet.broker.settings.config import BrokerConfig, Pauses
from roquet.broker.tables.clients import Consumers, Producers
from roquet.broker.tables.durable_state import ProgressTables
from roquet.broker.tables.groups import GroupTable
from roquet.broker.tables.offsets import OffsetTable
from roquet.broker.tables.queue_locks import LockTable
from roquet.broker.tables.saving import Saver
from roquet.broker.tables.statistics import EndedTransactions, Statistics
from roquet.broker.tables.topics import TopicTable
from roquet.broker.transactions.pending_halves import PendingHalves
from roquet.clock import Clock
from roquet.disk import Disk
from roquet.net.connection import Connection
from roquet.net.limits import ConnectionBudget
from roquet.net.service import Services
from roquet.net.tls.contexts import ServerTls
from roquet.protocol.bodies.body import DataVersion
from roquet.protocol.templates.send_reply import SendReplyTemplate
from roquet.settings.changes import ChangedSettings
from roquet.store.message_store import MessageStore
from roquet.throttled_log import ThrottledLog


class Broker(msgspec.Struct):
    """State that belongs to the event loop; handlers change it, services save it."""

    config: BrokerConfig
    clock: Clock
    disk: Disk
    store: MessageStore
    topics: TopicTable
    groups: GroupTable
    offsets: OffsetTable
    consumers: Consumers[Connection]
    producers: Producers[Connection]
    locks: LockTable
    long_polls: LongPolls
    acks: AckQueue
    expiry: Expiry
    refused_writes: ThrottledLog
    late_sends: LateSends
    progress: ProgressTables
    delays: Delays
    pending_halves: PendingHalves
    # Changes of topics and groups, where there are epochs.
    table_log: TableLog
    registrar: Registrar
    statistics: Statistics
    ended_transactions: EndedTransactions
    topic_saver: Saver
    group_saver: Saver
    offset_saver: Saver
    delay_saver: Saver
    timer_saver: Saver
    changed_settings: ChangedSettings
    settings_saver: Saver
    tls: ServerTls
    # All connections, of both ports.
    connection_budget: ConnectionBudget
    # None without access control.
    accounts: AccountStore | None
    guard: AccessGuard | None
    replication: Replication
    # The owner of what a request leaves to be done after its handler has returned.
    services: Services
    # Where clients find this broker, packed as in records; message ids begin with it.
    store_host: bytes
    # What the broker adds to the properties of every message.
    cluster_property: bytes
    send_reply: SendReplyTemplate
    # For what is done again and again, at intervals that may be changed.
    pauses: Pauses = msgspec.field(default_factory=Pauses)
    # Tools that keep a copy of the configuration compare it.
    config_version: DataVersion = msgspec.field(default_factory=DataVersion)
