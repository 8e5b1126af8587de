"""Parts of clusters, stores and clients that programs have no access to, but tests look at and
disturb.

Other tests do not reach for private members of these: what is renamed there is renamed here.
"""

from typing import Any

from roquet import AsyncProducer
from roquet.broker.broker import Broker
from roquet.client.blocking.twin import BlockingTwin
from roquet.client.cluster.instance import ClientInstance
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


def member_of(consumer: Any) -> Any:
    """What an open push or pull consumer, or its blocking twin, is in its group."""
    found = consumer._twin if isinstance(consumer, BlockingTwin) else consumer
    return found._lifecycle.usable()


def instance_of(client: Any) -> ClientInstance:
    """Of an open producer or consumer, or of its blocking twin."""
    found = client._twin if isinstance(client, BlockingTwin) else client
    if isinstance(found, AsyncProducer):
        return found._accumulator.usable().instance
    instance: ClientInstance = member_of(found).membership.instance
    return instance
