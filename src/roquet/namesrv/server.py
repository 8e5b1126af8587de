"""Assembly and life of a name server, nothing else."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from msgspec.structs import replace

from roquet.clock import Clock
from roquet.disk import Disk
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.handlers import ROUTES
from roquet.namesrv.kv_config import KvConfig
from roquet.namesrv.name_server import NameServer
from roquet.namesrv.route_table import LiveBroker, RouteTable
from roquet.net.connection import Connection
from roquet.net.limits import Limits
from roquet.net.router import Router
from roquet.net.service import OnFailure, Services
from roquet.net.serving import Server
from roquet.state_file import StateFile

log = logging.getLogger(__name__)


@asynccontextmanager
async def serve_names(
    config: NameServerConfig, clock: Clock, disk: Disk
) -> AsyncIterator[NameServer]:
    """A name server that answers while the block runs; `config.port` is the port it got.

    Raises BadStateFile, and OSError or NoFreePort when the address cannot be had.
    """
    kv_config = KvConfig(StateFile(disk, config.kv_config_path.expanduser()))
    server = NameServer(config, RouteTable(clock), kv_config)
    listener = Server(
        Router(server, ROUTES),
        clock,
        limits=Limits(idle_timeout_s=config.idle_timeout_s),
        on_closed=partial(_lose_connection, server),
    )
    async with Services("name server") as services:
        services.run("save settings", kv_config.save_changes, on_failure=OnFailure.RESTART)
        services.every(
            "expire brokers", config.expiry_period_ms / 1000, partial(expire_brokers, server)
        )
        port = await listener.start(config.host, config.port)
        server.config = replace(config, port=port)
        log.info("name server listens on %s:%d", config.host, port)
        try:
            yield server
        finally:
            await listener.stop()
            log.info("name server stopped")


def expire_brokers(server: NameServer) -> None:
    for broker in server.routes.expire():
        _log_loss(broker, "it was silent for too long")
        broker.channel.close("the broker was silent for too long")


def _lose_connection(server: NameServer, connection: Connection) -> None:
    for broker in server.routes.lose_channel(connection):
        _log_loss(broker, "its connection is closed")


def _log_loss(broker: LiveBroker, reason: str) -> None:
    cluster, name, broker_id, address = broker.identity
    log.warning("forgot %s/%s/%d at %s: %s", cluster, name, broker_id, address, reason)
