"""Producers that are connected to brokers.

A broker knows the groups of a client from its heartbeats, and not which topics it sends to.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from roquet.client.admin.servers import AdminServers, Master
from roquet.client.arguments import moment_of
from roquet.client.cluster.brokers import reply_body
from roquet.client.errors import RequestRefused
from roquet.protocol.bodies.clients import ProducerConnections, ProducerTable
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import NoFields
from roquet.protocol.headers.groups import ProducerConnectionsHeader


@dataclass(frozen=True, slots=True)
class ConnectedProducer:
    """A client in a producer group, as it registered at brokers."""

    group: str
    client_id: str
    address: str | None
    language: str | None
    version: int
    # The time of its last heartbeat; None from brokers that only list the clients of one group.
    last_seen: datetime | None


async def list_producers(
    servers: AdminServers, group: str | None, topic: str | None, broker: str | None
) -> list[ConnectedProducer]:
    if broker is not None:
        brokers = await servers.masters(broker=broker)
    else:
        brokers = await (servers.replicas() if topic is None else servers.replicas_of(topic))

    async def producers(master: Master) -> list[ConnectedProducer]:
        try:
            found = await _all_at(servers, master)
        except RequestRefused as refused:
            # Older brokers of 4.9 can only be asked for one group.
            if group is None or refused.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise
            found = await _of_group(servers, master, group)
        return [each for each in found if group in (None, each.group)]

    parts = await servers.ask_each(brokers, producers)
    return _each_once(servers, (each for part in parts.values() for each in part))


async def _all_at(servers: AdminServers, master: Master) -> list[ConnectedProducer]:
    code = RequestCode.GET_ALL_PRODUCER_INFO
    reply = await servers.brokers.ask(master.address, code, NoFields())
    return [
        ConnectedProducer(
            group,
            each.client_id,
            None if each.remote_ip is None else each.remote_ip.removeprefix("/"),
            each.language,
            each.version,
            moment_of(each.last_update_timestamp),
        )
        for group, clients in reply_body(ProducerTable, reply, master.broker_name).data.items()
        for each in clients
    ]


async def _of_group(servers: AdminServers, master: Master, group: str) -> list[ConnectedProducer]:
    header = ProducerConnectionsHeader(producer_group=group)
    code = RequestCode.GET_PRODUCER_CONNECTION_LIST
    try:
        reply = await servers.brokers.ask(master.address, code, header)
    except RequestRefused as refused:
        # Brokers have no code of its own for an unknown group.
        if refused.code == ResponseCode.SYSTEM_ERROR:
            return []
        raise
    found = reply_body(ProducerConnections, reply, master.broker_name).connection_set
    return [
        ConnectedProducer(
            group, each.client_id, each.client_addr, each.language, each.version, None
        )
        for each in found
    ]


def _each_once(
    servers: AdminServers, found: Iterable[ConnectedProducer]
) -> list[ConnectedProducer]:
    """A client that is connected to several brokers is one client: by its last heartbeat."""
    latest: dict[tuple[str, str], ConnectedProducer] = {}
    for each in sorted(found, key=lambda each: each.last_seen.timestamp() if each.last_seen else 0):
        if servers.is_ours(each.group):
            group = servers.user_name(each.group)
            latest[group, each.client_id] = replace(each, group=group)
    return [latest[key] for key in sorted(latest)]
