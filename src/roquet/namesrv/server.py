"""Builds and runs a name server."""

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from roquet.clock import Clock
from roquet.disk import Disk
from roquet.namesrv import lost_brokers
from roquet.namesrv.config import NameServerConfig, change_config, changeable_texts
from roquet.namesrv.handlers import ROUTES, notify_twins
from roquet.namesrv.lost_brokers import LostBrokers
from roquet.namesrv.route_table import LiveBroker, RouteTable
from roquet.namesrv.state import KvConfig, NameServer, Saving
from roquet.net.addresses import ip_of
from roquet.net.connection import Connection
from roquet.net.limits import ConnectionBudget
from roquet.net.router import Router
from roquet.net.service import OnFailure, Services
from roquet.net.serving import Server
from roquet.net.tls.contexts import ServerTls
from roquet.protocol.host import Address
from roquet.settings import changes
from roquet.settings.changes import ChangedSettings, obey_log_level_from_start
from roquet.state_file import StateFile
from roquet.throttled_log import ThrottledLog

if TYPE_CHECKING:
    from roquet.access.account_store import AccountStore
    from roquet.access.guard import AccessGuard

log = logging.getLogger(__name__)

_TICK_S: Final = 1.0


@asynccontextmanager
async def serve_names(
    config: NameServerConfig, clock: Clock, disk: Disk
) -> AsyncIterator[NameServer]:
    """A name server that answers while the block runs; `config.port` is the port it got.

    Raises BadStateFile, TlsNotUsable, BadRules, and OSError, NoFreePort or UnknownHost when the
    address cannot be used.
    """
    ip_of(config.host)
    tls = ServerTls(config.tls, clock)
    kv_config_path = config.kv_config_path.expanduser()
    kv_config = KvConfig(StateFile(disk, kv_config_path), config.kv_config_size_max)
    changed_settings = ChangedSettings(changeable_texts(config))
    changes_file = StateFile(disk, kv_config_path.with_name(changes.FILE_NAME))
    changes_file.load(changed_settings.load)
    config = changed_settings.applied_to(config, change_config)
    settings_saving = Saving(changes_file, changed_settings.to_bytes)
    if changed_settings.change_count:
        await settings_saving.save_now()  # Dropped changes must not return.
    lost = LostBrokers(clock)
    lost_file = StateFile(disk, kv_config_path.with_name(lost_brokers.FILE_NAME))
    lost.load(lost_file)
    lost_saving = Saving(lost_file, lost.to_bytes)
    lost.on_change = lost_saving.save_soon
    accounts, guard = _access(config, clock, disk)
    server = NameServer(
        config=config,
        clock=clock,
        routes=RouteTable(clock, config.route_count_max),
        lost=lost,
        kv_config=kv_config,
        changed_settings=changed_settings,
        settings_saving=settings_saving,
        tls=tls,
        connection_budget=ConnectionBudget(clock, config.server_limits),
        warnings=ThrottledLog(log, clock.monotonic_s),
        guard=guard,
    )
    listener = Server(
        Router(server, ROUTES, guard, admin_requires_tls=config.admin_requires_tls),
        clock,
        limits=config.limits,
        on_closed=partial(_lose_connection, server),
        tls=tls,
        budget=server.connection_budget,
    )
    obey_log_level_from_start(config.log_level)
    async with Services("name server") as services:
        for saving in (kv_config.saving, settings_saving, lost_saving):
            services.run("save tables", saving.save_changes, on_failure=OnFailure.RESTART)
        services.every(
            "expire brokers", config.expiry_period_ms / 1000, partial(expire_brokers, server)
        )
        if accounts is not None and guard is not None:
            reloading = accounts.watch
            services.run("reload accounts", reloading, on_failure=OnFailure.RESTART)
            services.every("count refusals", _TICK_S, guard.tick)
        port = await listener.start(config.host, config.port)
        server.config = replace(config, port=port)
        log.info("name server listens on %s:%d", config.host, port)
        try:
            async with AsyncExitStack() as stack:
                if config.http_place is not None:
                    await stack.enter_async_context(_pages(server, config.http_place, clock))
                yield server
        finally:
            lost.close()
            await listener.stop()
            log.info("name server stopped")


def _access(
    config: NameServerConfig, clock: Clock, disk: Disk
) -> "tuple[AccountStore | None, AccessGuard | None]":
    """Imported only where access control is configured. Raises BadRules."""
    if not config.access_control:
        return None, None
    from roquet.access.account_store import open_account_store  # noqa: PLC0415
    from roquet.access.guard import AccessGuard  # noqa: PLC0415

    accounts = open_account_store(config, disk, clock)
    return accounts, AccessGuard(accounts, clock)


@asynccontextmanager
async def _pages(server: NameServer, place: Address, clock: Clock) -> AsyncIterator[None]:
    """Imported only where an HTTP port is configured."""
    from roquet.monitoring.pages import serve_pages  # noqa: PLC0415
    from roquet.namesrv.metrics import MonitoredNameServer  # noqa: PLC0415

    async with serve_pages(place, [MonitoredNameServer(server)], clock) as port:
        server.config = replace(server.config, http_place=place._replace(port=port))
        yield


def expire_brokers(server: NameServer) -> None:
    server.warnings.flush()
    server.lost.expire()
    for broker in server.routes.expire():
        silent_s = server.clock.monotonic_s() - broker.refreshed_s
        _lose(server, broker, "no heartbeat", silent_s)
        broker.channel.close("the broker sent no heartbeat")


def _lose_connection(server: NameServer, connection: Connection) -> None:
    for broker in server.routes.lose_channel(connection):
        _lose(server, broker, "its connection is closed")


def _lose(server: NameServer, broker: LiveBroker, reason: str, silent_s: float = 0.0) -> None:
    server.lost.note(broker.identity, reason, silent_s)
    cluster, name, broker_id, address = broker.identity
    log.warning("removed broker %s/%s/%d at %s: %s", cluster, name, broker_id, address, reason)
    notify_twins(server, broker.identity)
