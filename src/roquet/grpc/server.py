"""The endpoint at a port, for as long as its broker is supervised.

Plain and TLS clients come to the same port, with the certificate of the broker.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from roquet.broker.broker import Broker
from roquet.clock import Clock
from roquet.grpc.clients import RENEWAL_PAUSE_S, renew
from roquet.grpc.connection import GrpcConnection, GrpcLimits
from roquet.grpc.methods import Endpoint
from roquet.net.deadlines import DeadlineSweep
from roquet.net.service import Services
from roquet.net.serving import Server
from roquet.protocol.host import Address

DEFAULT_GRPC_LIMITS: Final = GrpcLimits()


@asynccontextmanager
async def serve_grpc(
    place: Address,
    broker: Broker,
    serving: Callable[[], Broker | None],
    clock: Clock,
    limits: GrpcLimits = DEFAULT_GRPC_LIMITS,
) -> AsyncIterator[int]:
    """Yields the port. `serving` is the current broker, None while it restarts.

    Certificates and limits of connections are those of `broker`. Raises what `Server.start` does.
    """
    endpoint = Endpoint(serving)
    access = broker.access

    def new_connection(server: Server, deadlines: DeadlineSweep) -> GrpcConnection:
        return GrpcConnection(
            server, endpoint.open_call, deadlines, limits, access.connection_budget
        )

    def renew_held() -> None:
        current = serving()
        if current is not None and not current.config.is_slave:
            renew(current, endpoint.clients)

    server = Server(
        None, clock, new_connection=new_connection, tls=access.tls, budget=access.connection_budget
    )
    port = await server.start(place.ip, place.port)
    try:
        async with Services("gRPC") as services:
            services.every("renew messages", RENEWAL_PAUSE_S, renew_held)
            yield port
    finally:
        await server.stop()
        endpoint.close()
