"""A broker from start to stop."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.build import build_broker
from roquet.broker.fast_path.fast_path import FastPath
from roquet.broker.handlers import ROUTES
from roquet.broker.loading import WITHOUT_REPLICAS, StartState
from roquet.broker.maintenance import learn, start_upkeep
from roquet.broker.membership import connection_lost
from roquet.broker.messages.subscriptions import load_sql_filters
from roquet.broker.settings.config import FAST_PORT_DISTANCE, HA_PORT_DISTANCE, BrokerConfig
from roquet.clock import Clock
from roquet.disk import Disk
from roquet.net.address_server import AddressServer, read_source
from roquet.net.addresses import ip_of, is_loopback, reachable_host
from roquet.net.listening import at_free_port
from roquet.net.router import RequestRoute, Router
from roquet.net.service import OnFailure
from roquet.net.serving import Server
from roquet.protocol.codes import RequestCode
from roquet.protocol.host import Address
from roquet.settings.changes import obey_log_level_from_start

log = logging.getLogger(__name__)

_LONG_POLLS: Final = frozenset(
    (
        RequestCode.PULL_MESSAGE,
        RequestCode.LITE_PULL_MESSAGE,
        RequestCode.POP_MESSAGE,
        RequestCode.NOTIFICATION,
    )
)
# The fast port is for what answers at once.
_FAST_ROUTES: Final = tuple(route for route in ROUTES if route.code not in _LONG_POLLS)


@asynccontextmanager
async def serve_broker(
    config: BrokerConfig,
    clock: Clock,
    disk: Disk,
    start_state: StartState = WITHOUT_REPLICAS,
) -> AsyncIterator[Broker]:
    """A broker that answers while the block runs; `config.listen_port` is the port it got.

    When `broker.messages.acks.has_failed` is set, it has to stop; `supervisor` serves those that
    may have to restart. What the log has after `cut_end` of its start state is cut off. Raises
    StoreError, StateFileError, UnsupportedAttribute, TlsNotUsable, BadRules, OSError, NoFreePort
    or UnknownHost when an address cannot be had.
    """
    config = reachable(config)

    async def start(port: int) -> tuple[Broker, AsyncExitStack]:
        return await started(replace(config, listen_port=port), clock, disk, start_state)

    if config.listen_port:
        broker, running = await start(config.listen_port)
    else:
        neighbours = (FAST_PORT_DISTANCE, HA_PORT_DISTANCE)
        broker, running = await at_free_port(config.bind_host, start, neighbours)
    async with running:
        yield broker
        log.info("%s stops", config.broker_name)


def reachable(config: BrokerConfig) -> BrokerConfig:
    """With the address that clients are given. Raises UnknownHost."""
    ip_of(config.bind_host)
    host = config.advertised_host or reachable_host(config.bind_host)
    return replace(config, advertised_host=host)


async def started(
    config: BrokerConfig, clock: Clock, disk: Disk, start: StartState = WITHOUT_REPLICAS
) -> tuple[Broker, AsyncExitStack]:
    """A broker that answers, and what ends it."""
    # The stack unwinds in the opposite order: first the broker is unregistered, then it stops
    # serving, then everything is saved.
    async with AsyncExitStack() as stack:
        broker = build_broker(config, clock, disk, stack, start)
        # What was true for a longer log alone is forgotten before this one grows.
        for saver in (
            broker.tables.savers.levels,
            broker.tables.savers.timers,
            broker.tables.savers.offsets,
        ):
            await saver.until_saved()
        obey_log_level_from_start(broker.config.log_level)
        if broker.config.sql_filters:
            load_sql_filters()
        await stack.enter_async_context(broker.background.services)
        start_upkeep(broker)
        listeners = [
            _listener(broker, ROUTES, has_pulls=True),
            _listener(broker, _FAST_ROUTES, has_pulls=False),
        ]

        async def stop_serving() -> None:
            # Both in one turn of the loop: no client that was answered can send another request.
            broker.messages.long_polls.close()
            await asyncio.gather(*(listener.stop() for listener in listeners))

        stack.push_async_callback(stop_serving)
        slave_links = broker.replication.slave_links
        if broker.access.guard is not None:
            slave_links.may_follow = broker.access.guard.may_replicate
        if not config.is_slave:
            slave_links.start(config)
        stack.callback(slave_links.stop)
        for listener, distance in zip(listeners, (0, FAST_PORT_DISTANCE), strict=True):
            await listener.start(config.bind_host, config.listen_port + distance)
        await _find_name_servers(broker)
        learn(broker, await broker.registrar.register())
        stack.push_async_callback(broker.registrar.unregister)
        _log_address(config)
        return broker, stack.pop_all()


async def _find_name_servers(broker: Broker) -> None:
    """If there is a server that names them, now and again and again."""
    url = read_source(";".join(broker.config.name_servers)).url
    if url is not None:
        server = AddressServer(url, broker.registrar.use)
        await server.ask()
        broker.background.services.run(
            "find name servers", server.keep_asking, on_failure=OnFailure.RESTART
        )


def _log_address(config: BrokerConfig) -> None:
    place = Address(config.bind_host, config.listen_port)
    advertised = Address(config.advertised_host or config.bind_host, config.listen_port)
    if advertised == place:
        log.info("%s serves at %s", config.broker_name, place)
        return
    log.info("%s serves at %s, advertised as %s", config.broker_name, place, advertised)
    if is_loopback(place.ip) and not is_loopback(advertised.ip):
        log.warning(
            "listening on loopback only, but %s is advertised: to serve others, set "
            "bindAddress, or give --host",
            advertised,
        )


def _listener(broker: Broker, routes: Sequence[RequestRoute[Broker]], *, has_pulls: bool) -> Server:
    # The fast path checks no rights, so a guarded broker has none.
    fast_path = FastPath(broker, has_pulls=has_pulls) if broker.access.guard is None else None
    return Server(
        Router(
            broker,
            routes,
            broker.access.guard,
            admin_requires_tls=broker.config.admin_requires_tls,
        ),
        broker.clock,
        limits=broker.config.limits,
        on_closed=lambda connection: connection_lost(broker, connection),
        fast_path=fast_path,
        tls=broker.access.tls,
        budget=broker.access.connection_budget,
    )
