"""A service at a port, plain and with TLS."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from roquet.clock import Clock
from roquet.grpc.connection import GrpcConnection, GrpcLimits
from roquet.grpc.methods import Endpoint, Service
from roquet.net.deadlines import DeadlineSweep
from roquet.net.limits import ConnectionBudget
from roquet.net.serving import Server
from roquet.net.tls.contexts import ServerTls
from roquet.protocol.host import Address

_LIMITS: Final = GrpcLimits()


@asynccontextmanager
async def serve_service(
    place: Address,
    service: Service,
    clock: Clock,
    tls: ServerTls,
    budget: ConnectionBudget,
) -> AsyncIterator[int]:
    """Yields the port. Raises what `Server.start` does."""
    endpoint = Endpoint(service)

    def new_connection(server: Server, deadlines: DeadlineSweep) -> GrpcConnection:
        return GrpcConnection(server, endpoint, deadlines, _LIMITS, budget)

    server = Server(None, clock, new_connection=new_connection, tls=tls, budget=budget)
    service.figures.connection_count = lambda: server.connection_count
    port = await server.start(place.ip, place.port)
    try:
        yield port
    finally:
        await server.stop()
        service.clients.close()
