"""The endpoint for clients of 5.x beside a broker.

It stands alone because the broker must not know it: it is built on the broker, and loaded only if
it has a port.
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from roquet.broker.supervisor import BrokerSupervisor
from roquet.clock import Clock
from roquet.protocol.host import Address

if TYPE_CHECKING:
    from roquet.monitoring.exposition import Exposition, Labels

log = logging.getLogger(__name__)


@asynccontextmanager
async def grpc_endpoint(
    host: str,
    port: int | None,
    supervisor: BrokerSupervisor,
    clock: Clock,
    advertised_host: str | None = None,
) -> AsyncIterator[int | None]:
    """Serves while the block runs; yields the port. Without one there is no endpoint.

    Routes of other brokers name the advertised host, by default that of the broker. Raises
    GrpcMissing, and what a server raises that cannot listen.
    """
    if port is None:
        yield None
        return
    # Loaded only when needed.
    from roquet.grpc import load_endpoint  # noqa: PLC0415

    serve_grpc = load_endpoint()
    from roquet.grpc.calls import EndpointFigures  # noqa: PLC0415

    figures = EndpointFigures()

    def measure(own: "Labels", into: "Exposition") -> None:
        # Loaded only when needed.
        from roquet.grpc.metrics import measure_endpoint  # noqa: PLC0415

        measure_endpoint(figures, own, into)

    place = Address(host, port)
    broker = supervisor.broker
    async with serve_grpc(
        place, broker, lambda: supervisor.serving, clock, figures=figures
    ) as taken_port:
        supervisor.measured_beside.append(measure)
        advertised = advertised_host or broker.config.advertised_host or broker.config.bind_host
        await supervisor.register_endpoint(Address(advertised, taken_port))
        name = broker.config.broker_name
        log.info("%s serves gRPC at %s", name, place._replace(port=taken_port))
        yield taken_port
