"""Who is connected to a broker (203, 204, 328)."""

import msgspec

from roquet.protocol.bodies.body import Body, always
from roquet.protocol.bodies.subscription_data import SubscriptionData
from roquet.protocol.fields import Int32, Int64


class ConnectionInfo(Body, kw_only=True):
    client_addr: str | None = None  # "ip:port"
    client_id: str
    language: str | None = None
    version: Int32 = always(0)


class ProducerConnections(Body, kw_only=True):
    """Reply to 204."""

    connection_set: list[ConnectionInfo] = always([])


class ConsumerConnections(Body, kw_only=True):
    """Reply to 203; the choices are those of `heartbeat.ConsumerData`."""

    connection_set: list[ConnectionInfo] = always([])
    consume_from_where: str | None = None
    consume_type: str | None = None
    message_model: str | None = None
    subscription_table: dict[str, SubscriptionData] = always({})


class ProducerInfo(Body, kw_only=True):
    client_id: str
    language: str | None = None
    last_update_timestamp: Int64 = always(0)
    remote_ip: str | None = msgspec.field(name="remoteIP", default=None)  # "/ip:port"
    version: Int32 = always(0)


class ProducerTable(Body, kw_only=True):
    """Reply to 328, by producer group."""

    data: dict[str, list[ProducerInfo]] = always({})
