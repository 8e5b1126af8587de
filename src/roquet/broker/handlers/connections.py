"""Who is connected: reports for operators."""

from roquet.access.needs import sub_group
from roquet.broker.broker import Broker
from roquet.broker.tables.clients import Client
from roquet.net.connection import Connection
from roquet.net.errors import Refused
from roquet.net.router import Reply, Request, on
from roquet.protocol.bodies import clients as bodies
from roquet.protocol.bodies.body import write_body
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.addressed import NoFields
from roquet.protocol.headers.clients import ProducerConnectionsHeader
from roquet.protocol.headers.groups import ConsumerConnectionsHeader


def get_consumers(broker: Broker, request: Request[ConsumerConnectionsHeader]) -> Reply:
    name = request.header.consumer_group
    group = broker.consumers.find(name)
    if group is None:
        raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, f"nobody in group {name!r} is connected")
    body = bodies.ConsumerConnections(
        connection_set=[_connection(*member) for member in group.members.items()],
        consume_from_where=group.consume_from_where,
        consume_type=group.consume_type,
        message_model=group.message_model,
        subscription_table=group.subscriptions,
    )
    return Reply(body=write_body(body))


def get_producers(broker: Broker, request: Request[ProducerConnectionsHeader]) -> Reply:
    name = request.header.producer_group
    members = broker.producers.members(name)
    if not members:
        raise Refused(ResponseCode.SYSTEM_ERROR, f"no producer of group {name!r} is connected")
    connections = [_connection(*member) for member in members.items()]
    return Reply(body=write_body(bodies.ProducerConnections(connection_set=connections)))


def get_all_producers(broker: Broker, _request: Request[NoFields]) -> Reply:
    producers = broker.producers
    table = {
        group: [_producer(*member) for member in producers.members(group).items()]
        for group in producers.groups()
    }
    return Reply(body=write_body(bodies.ProducerTable(data=table)))


def _connection(connection: Connection, client: Client) -> bodies.ConnectionInfo:
    return bodies.ConnectionInfo(
        client_id=client.client_id,
        client_addr=str(connection.peer_address),
        language=client.language,
        version=client.version,
    )


def _producer(connection: Connection, client: Client) -> bodies.ProducerInfo:
    return bodies.ProducerInfo(
        client_id=client.client_id,
        remote_ip=f"/{connection.peer_address}",  # The slash is Java's.
        language=client.language,
        version=client.version,
        last_update_timestamp=client.seen_ms,
    )


ROUTES = (
    on(
        RequestCode.GET_CONSUMER_CONNECTION_LIST,
        ConsumerConnectionsHeader,
        get_consumers,
        needs=sub_group("consumer_group"),
    ),
    on(RequestCode.GET_PRODUCER_CONNECTION_LIST, ProducerConnectionsHeader, get_producers),
    on(RequestCode.GET_ALL_PRODUCER_INFO, NoFields, get_all_producers),
)
