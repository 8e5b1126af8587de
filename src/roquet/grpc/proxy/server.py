"""A proxy at a port, plain and with TLS."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from roquet.access.account_store import AccountPaths, AccountStore
from roquet.client.cluster.links import LinkSettings
from roquet.client.cluster.name_servers import name_server_source
from roquet.client.config import Credentials, TlsConfig
from roquet.clock import Clock
from roquet.disk import SystemDisk
from roquet.grpc.clients import RENEWAL_PAUSE_S
from roquet.grpc.proxy.service import WHAT, ProxyService
from roquet.grpc.serving import serve_service
from roquet.net.addresses import ip_of
from roquet.net.limits import ConnectionBudget
from roquet.net.service import OnFailure, Services
from roquet.net.tls.contexts import ServerTls
from roquet.protocol.host import Address

log = logging.getLogger(__name__)


class ProxyConfig(msgspec.Struct, frozen=True, kw_only=True):
    """`credentials` and `tls` are for the cluster; `accounts_file` has those who may call."""

    place: Address
    name_server: str
    timeout_s: float
    credentials: Credentials | None = None
    tls: TlsConfig | bool = False
    accounts_file: Path | None = None


@asynccontextmanager
async def serve_proxy(
    config: ProxyConfig, own_tls: ServerTls, clock: Clock
) -> AsyncIterator[Address]:
    """Yields its address. Name servers need not answer yet.

    Raises BadArgument, BadRules, and OSError, NoFreePort or UnknownHost when the address cannot be
    used.
    """
    ip_of(config.place.ip)
    accounts = None
    if config.accounts_file is not None:
        accounts = AccountStore(AccountPaths(config.accounts_file), SystemDisk(), clock)
    links = LinkSettings(name_server_source(config.name_server), config.credentials, config.tls)
    budget = ConnectionBudget(clock)
    async with Services(WHAT) as services:
        proxy = ProxyService(links, services, clock, config.timeout_s, accounts)
        await proxy.open()
        try:
            if accounts is not None:
                services.run("reload accounts", accounts.watch, on_failure=OnFailure.RESTART)
            services.every("renew messages", RENEWAL_PAUSE_S, proxy.keep_held)
            async with serve_service(config.place, proxy, clock, own_tls, budget) as port:
                place = config.place._replace(port=port)
                log.info("proxy of %s serves gRPC at %s", config.name_server, place)
                yield place
        finally:
            await proxy.close()
    log.info("proxy stopped")
