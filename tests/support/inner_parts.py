"""Parts of a cluster and of a store that programs have no access to, but tests look at and disturb.

Other tests do not reach for private members of these two: what is renamed there is renamed here.
"""

from roquet.broker.broker import Broker
from roquet.store.commit_log import CommitLog
from roquet.store.flushing import Flusher
from roquet.store.keys.key_index import KeyIndex
from roquet.store.message_store import MessageStore
from roquet.store.queues import ConsumeQueues
from roquet.testing import Cluster


def broker_of(cluster: Cluster, name: str = "broker-a") -> Broker:
    """The running broker of that name."""
    return cluster._brokers[name]


def log_of(store: MessageStore) -> CommitLog:
    return store._log


def queues_of(store: MessageStore) -> ConsumeQueues:
    return store._queues


def index_of(store: MessageStore) -> KeyIndex:
    """Of a store that has one."""
    assert store._index is not None
    return store._index


def flusher_of(store: MessageStore) -> Flusher:
    return store._flusher
