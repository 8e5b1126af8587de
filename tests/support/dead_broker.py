"""A broker that is registered with a name server and unreachable."""

from collections.abc import Iterator
from contextlib import contextmanager

from roquet.protocol.bodies.body import write_body
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.name_server import RegisterBrokerHeader
from tests.support.blocking_peer import BlockingPeer
from tests.support.names import two_topics
from tests.support.ports import free_port


@contextmanager
def dead_broker(
    name_server: str, broker_name: str, cluster: str = "DefaultCluster", address: str | None = None
) -> Iterator[str]:
    """Its address, unless it is given. It has the topics "t" and "u"."""
    address = address or f"127.0.0.1:{free_port()}"
    header = RegisterBrokerHeader(
        broker_name=broker_name,
        broker_addr=address,
        cluster_name=cluster,
        ha_server_addr=address,
        broker_id=0,
    )
    # A name server forgets a broker whose connection ends.
    with BlockingPeer(name_server) as peer:
        reply = peer.call(RequestCode.REGISTER_BROKER, header, write_body(two_topics()))
        assert reply.code == ResponseCode.SUCCESS
        yield address
