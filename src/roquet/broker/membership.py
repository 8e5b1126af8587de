"""Consumer groups while they live: settings made by the first who asks, and members who go.

Who is in which group is kept in `tables/clients.py`. Here it has consequences: those who stay are
told, and share out the queues anew.
"""

import logging

from roquet.broker.broker import Broker
from roquet.broker.notices import tell_members_changed
from roquet.broker.tables.clients import SILENCE_S_MAX
from roquet.net.connection import Connection
from roquet.protocol.bodies.groups import GroupConfig

log = logging.getLogger(__name__)


def group_settings(broker: Broker, group: str) -> GroupConfig:
    """The settings of a group, made if they may be.

    Raises BadName, UnknownGroup and NoMoreGroups.
    """
    found = broker.groups.find(group)
    if found is not None:
        return found
    # At a slave, too: somebody may have to start while the master is away. What the master has
    # takes its place later.
    return broker.groups.find_or_create(
        group,
        may_create=broker.config.create_groups,
        count_max=broker.config.created_group_count_max,
    )


def connection_lost(broker: Broker, connection: Connection) -> None:
    """Whoever was on the connection is gone, and those who stay take over at once."""
    broker.producers.forget(connection)
    for group in broker.consumers.forget(connection):
        tell_members_changed(broker, group)


def expire_clients(broker: Broker) -> None:
    """Clients that sent no heartbeat for long are taken for dead, and cut off."""
    now_s = broker.clock.monotonic_s()
    consumers = broker.consumers.forget_silent(now_s)
    producers = broker.producers.forget_silent(now_s)
    for group in consumers.groups:
        tell_members_changed(broker, group)
    for connection in {*consumers.connections, *producers.connections}:
        log.warning("cutting off %s: it sent no heartbeat", connection.peer)
        connection.close(f"no heartbeat for {SILENCE_S_MAX:g} s")
