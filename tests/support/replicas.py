"""Two ends of a replication link in one event loop, without the brokers around them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from roquet.broker.replication.epochs import SharedSecret
from roquet.broker.replication.master import SlaveLinks
from roquet.broker.replication.replica_progress import ReplicaProgress
from roquet.broker.replication.slave import MasterLink
from roquet.broker.settings.config import BrokerConfig, BrokerRole
from roquet.clock import SystemClock
from roquet.net.listening import free_port
from roquet.net.service import OnFailure, Services
from roquet.net.tls.contexts import ServerTls
from roquet.store.message_store import MessageStore
from roquet.store.replica_log import Grown
from tests.support.quick_disk import QuickDisk
from tests.support.stores import small_config

HOST = "127.0.0.1"


@dataclass
class Master:
    config: BrokerConfig
    store: MessageStore
    replicas: ReplicaProgress
    links: SlaveLinks
    port: int
    tls: ServerTls

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"


@dataclass
class RunningSlave:
    store: MessageStore
    link: MasterLink
    grown: list[Grown]


def replica_config(
    root: Path, role: BrokerRole, sizes: dict[str, Any], **settings: Any
) -> BrokerConfig:
    settings = {"ha_heartbeat_interval_ms": 50} | settings
    return BrokerConfig(store=small_config(root, **sizes), role=role, **settings)


@asynccontextmanager
async def serving_master(
    root: Path,
    sizes: dict[str, Any] | None = None,
    *,
    is_started: bool = False,
    secret: SharedSecret | None = None,
    **settings: Any,
) -> AsyncIterator[Master]:
    """`is_started` starts the thread that flushes."""
    config = replica_config(root, BrokerRole.ASYNC_MASTER, sizes or {}, **settings)
    clock = SystemClock()
    store = MessageStore.open(config.store, clock, QuickDisk())
    if is_started:
        store.start()
    port = free_port(HOST)
    config = replace(config, ha_listen_port=port)
    replicas = ReplicaProgress(config.ha_lag_size_max, lambda: store.log_end)
    try:
        async with Services("master") as services:
            tls = ServerTls(config.tls, clock)
            links = SlaveLinks(config, clock, store, replicas, services, secret=secret, tls=tls)
            links.start(config)
            try:
                yield Master(config, store, replicas, links, port, tls)
            finally:
                links.stop()
    finally:
        store.close()


@asynccontextmanager
async def running_slave(
    root: Path,
    address: str | Callable[[], str | None],
    sizes: dict[str, Any] | None = None,
    *,
    secret: SharedSecret | None = None,
    on_diverged: Callable[[int], None] = lambda _end: None,
    **settings: Any,
) -> AsyncIterator[RunningSlave]:
    config = replica_config(root, BrokerRole.SLAVE, sizes or {}, broker_id=2, **settings)
    clock = SystemClock()
    store = MessageStore.open(config.store, clock, QuickDisk())
    grown: list[Grown] = []
    link = MasterLink(
        config,
        clock,
        store,
        master_address=address if callable(address) else lambda: address,
        on_grown=grown.append,
        secret=secret,
        on_diverged=on_diverged,
        tls=ServerTls(config.tls, clock).outgoing,
    )
    try:
        async with Services("slave") as services:
            services.run("follow", link.follow, on_failure=OnFailure.STOP_ALL)
            yield RunningSlave(store, link, grown)
    finally:
        store.close()


@asynccontextmanager
async def raw_slave(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        yield reader, writer
    finally:
        writer.close()
