"""The endpoint at a port, for as long as its broker is supervised.

Plain and TLS clients come to the same port, with the certificate of the broker.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from roquet.broker.broker import Broker
from roquet.clock import Clock
from roquet.grpc.calls import EndpointFigures
from roquet.grpc.clients import RENEWAL_PAUSE_S
from roquet.grpc.in_broker.service import BrokerService
from roquet.grpc.serving import serve_service
from roquet.net.service import Services
from roquet.protocol.host import Address


@asynccontextmanager
async def serve_grpc(
    place: Address,
    broker: Broker,
    serving: Callable[[], Broker | None],
    clock: Clock,
    figures: EndpointFigures | None = None,
) -> AsyncIterator[int]:
    """Yields the port. `serving` is the current broker, None while it restarts; `figures` count.

    Certificates and limits of connections are those of `broker`, and of the ones it becomes. Raises
    what `Server.start` does.
    """
    access = broker.access
    async with Services("gRPC") as services:
        service = BrokerService(serving, services, figures or EndpointFigures())
        services.every("renew messages", RENEWAL_PAUSE_S, service.renew_held)
        async with serve_service(
            place, service, clock, access.tls, access.connection_budget
        ) as port:
            yield port
