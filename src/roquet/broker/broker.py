"""What the handlers of a broker work on, in parts.

A function that needs one part takes that part; one that needs several takes the broker. How they
are put together is in `build.py`, how they start and stop in `server.py`.
"""

from typing import TYPE_CHECKING

import msgspec

from roquet.broker.delays.delays import Delays
from roquet.broker.messages.appending import Messages
from roquet.broker.pop.ack_turn import AckTurn
from roquet.broker.pop.first_queue import FirstQueue
from roquet.broker.pop.journal import PopJournal
from roquet.broker.pop.poll_counts import PopPolls
from roquet.broker.registration import Registrar
from roquet.broker.replication.replication import Replication
from roquet.broker.settings.config import BrokerConfig, Pauses
from roquet.broker.tables.clients import ClientConnection, Consumers, Producers
from roquet.broker.tables.durable_state import ProgressTables
from roquet.broker.tables.past_members import PastMembers
from roquet.broker.tables.queue_locks import LockTable
from roquet.broker.tables.statistics import Statistics
from roquet.broker.tables.tables import Tables
from roquet.broker.transactions.pending_halves import PendingHalves
from roquet.clock import Clock
from roquet.net.limits import ConnectionBudget
from roquet.net.service import Services
from roquet.net.tls.contexts import ServerTls
from roquet.store.message_store import MessageStore

if TYPE_CHECKING:
    from roquet.access.account_store import AccountStore
    from roquet.access.guard import AccessGuard
    from roquet.access.user_store import UserStore


class Clients(msgspec.Struct, frozen=True):
    """Connected clients, former ones, and which member of a group owns which queue."""

    consumers: Consumers[ClientConnection]
    producers: Producers[ClientConnection]
    locks: LockTable
    past_members: PastMembers


class WaitingMessages(msgspec.Struct):
    """Messages that wait for their time, for the end of their transaction, or for an ack."""

    # A promotion replaces it.
    delays: Delays
    pending_halves: PendingHalves
    pops: PopJournal
    ack_turn: AckTurn
    # How far all of these are, as their files have it or will have it soon.
    progress: ProgressTables
    pop_polls: PopPolls = msgspec.field(default_factory=PopPolls)
    first_queue: FirstQueue = msgspec.field(default_factory=FirstQueue)


class Access(msgspec.Struct, frozen=True):
    """Which clients may connect, and what each account may do."""

    tls: ServerTls
    # All connections, of both ports.
    connection_budget: ConnectionBudget
    # None without access control.
    accounts: "AccountStore | None"
    # None without users of 5.x.
    users: "UserStore | None"
    guard: "AccessGuard | None"


class Background(msgspec.Struct, frozen=True):
    """What runs beside the requests."""

    # Also the owner of what a request leaves to be done after its handler has returned.
    services: Services
    # For what is done again and again, at intervals that may be changed.
    pauses: Pauses


class Broker(msgspec.Struct):
    """State that belongs to the event loop; handlers change it, services save it."""

    # The current one: requests and promotions replace it.
    config: BrokerConfig
    clock: Clock
    store: MessageStore
    tables: Tables
    clients: Clients
    messages: Messages
    waiting: WaitingMessages
    replication: Replication
    registrar: Registrar
    access: Access
    statistics: Statistics
    background: Background
