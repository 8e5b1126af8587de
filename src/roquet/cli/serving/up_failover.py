"""A cluster with automatic failover: each broker is a process that may be killed.

An etcd is started beside the name server, and a broker that exits is restarted after a pause, so
that it can be seen to return as a slave.
"""

import asyncio
import logging
import secrets
import string
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, final

import msgspec

from roquet.broker.replication.failover.own_etcd import PEERS_DISTANCE, own_etcd_words
from roquet.broker.settings.config import FAST_PORT_DISTANCE, HA_PORT_DISTANCE, SMALL_FILES
from roquet.client.admin.admin import AsyncAdmin
from roquet.client.admin.cluster import BrokerInfo
from roquet.client.config import TlsConfig
from roquet.net.addresses import local_host, reachable_host
from roquet.net.listening import free_port
from roquet.net.tls.settings import TlsSettings
from roquet.protocol.host import Address

log = logging.getLogger(__name__)

_ETCD_HOST: Final = "127.0.0.1"
_ROQUET: Final = (sys.executable, "-c", "from roquet.cli.main import main; main()")
_PORT_STEP: Final = 10
_BACK_AFTER_S: Final = 10.0
_LOOK_AGAIN_S: Final = 0.2
_STOP_TIMEOUT_S: Final = 20.0


class FailoverPlan(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    advertised_host: str | None
    name_server_port: int
    broker_port: int
    broker_count: int
    replica_count: int
    tls: TlsSettings
    # Of the first broker; the others have the ports after it. None without endpoints.
    grpc_port: int | None = None

    @property
    def certificate(self) -> Path | None:
        """The certificate that all servers use and trust; None without TLS."""
        return self.tls.server.certificate


@final
class _Child:
    """A process that is restarted when it ends."""

    def __init__(self, name: str, words: list[str], log_path: Path) -> None:
        self.name = name
        self._words = words
        self._log_path = log_path
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with self._log_path.open("ab") as log_file:
            self._process = await asyncio.create_subprocess_exec(
                *self._words, stdin=asyncio.subprocess.DEVNULL, stdout=log_file, stderr=log_file
            )
        log.info("%s started as process %d; log: %s", self.name, self._process.pid, self._log_path)

    async def keep_running(self) -> None:
        """Never returns."""
        while True:
            assert self._process is not None, "not started"
            code = await self._process.wait()
            again_s = _BACK_AFTER_S
            log.warning("%s exited with code %d; restarting in %g s", self.name, code, again_s)
            await asyncio.sleep(_BACK_AFTER_S)
            await self.start()

    async def stop(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(_STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


async def serve_failover(plan: FailoverPlan, directory: Path, stop: asyncio.Event) -> None:
    """Runs until `stop` is set. Raises EtcdMissing and OSError."""
    etcd_port = free_port(_ETCD_HOST, PEERS_DISTANCE)
    etcd = _etcd(plan, directory, etcd_port)
    grpc_ports = _grpc_ports(plan)
    children = [etcd, *_brokers(plan, directory, etcd_port, grpc_ports)]
    async with AsyncExitStack() as stack:
        for child in children:
            await child.start()
            stack.push_async_callback(child.stop)
        keeping = [asyncio.ensure_future(child.keep_running()) for child in children]
        try:
            await _serve(plan, grpc_ports, stop)
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)


def _grpc_ports(plan: FailoverPlan) -> list[int]:
    """Of all brokers: whatever role they get, each shows clients where the masters are."""
    if plan.grpc_port is None:
        return []
    first, count = plan.grpc_port, plan.broker_count * (plan.replica_count + 1)
    return [first + index if first else free_port(plan.host) for index in range(count)]


async def _serve(plan: FailoverPlan, grpc_ports: list[int], stop: asyncio.Event) -> None:
    """Prints the ready line once every master has an in-sync slave, then waits for `stop`."""
    tls = plan.certificate is not None and TlsConfig(ca_file=plan.certificate)
    names = str(Address(local_host(plan.host), plan.name_server_port))
    async with AsyncAdmin(names, tls=tls) as admin:
        brokers = await _brokers_in_sync(plan, admin, stop)
    if brokers:
        masters = ",".join(each.address for each in brokers if each.is_master)
        slaves = ",".join(each.address for each in brokers if not each.is_master)
        host = plan.advertised_host or reachable_host(plan.host)
        name_server = Address(host, plan.name_server_port)
        line = f"ready name-server={name_server} broker={masters} slave={slaves}"
        line += f" tls-ca={plan.certificate}" if tls else ""
        endpoints = ",".join(str(Address(host, port)) for port in grpc_ports)
        print(line + (f" grpc={endpoints}" if endpoints else ""), flush=True)
    await stop.wait()


async def _brokers_in_sync(
    plan: FailoverPlan, admin: AsyncAdmin, stop: asyncio.Event
) -> list[BrokerInfo]:
    """All brokers once they are in sync; empty if `stop` is set before."""
    while not stop.is_set():
        brokers = await admin.brokers()
        masters = [each for each in brokers if each.is_master]
        are_in_sync = all(len(each.in_sync or ()) > plan.replica_count for each in masters)
        if len(masters) == plan.broker_count and are_in_sync:
            return brokers
        # There is no notification that a broker is in sync, so it is polled.
        await asyncio.sleep(_LOOK_AGAIN_S)
    return []


def _etcd_server(plan: FailoverPlan, port: int) -> str:
    scheme = "http" if plan.certificate is None else "https"
    return f"{scheme}://{_ETCD_HOST}:{port}"


def _etcd(plan: FailoverPlan, directory: Path, port: int) -> _Child:
    home = directory / "etcd"
    words = own_etcd_words(_ETCD_HOST, port, home / "data", plan.tls.server)
    home.mkdir(parents=True, exist_ok=True)
    return _Child("etcd", words, home / "etcd.log")


def _brokers(
    plan: FailoverPlan, directory: Path, etcd_port: int, grpc_ports: list[int]
) -> list[_Child]:
    secret = directory / "replication.secret"
    if not secret.exists():
        secret.touch(0o600)
        secret.write_text(secrets.token_hex(32))
    host = local_host(plan.host)
    settings = SMALL_FILES | {
        "namesrvAddr": str(Address(host, plan.name_server_port)),
        "bindAddress": plan.host,
        "replication.secretFile": str(secret),
        "replication.acknowledge": "quorum",
        "replication.copies": str(plan.replica_count + 1),
        "replication.etcd": _etcd_server(plan, etcd_port),
    }
    if plan.certificate is not None:
        settings |= _tls_settings(plan.tls)
        settings["replication.etcdTrustCertPath"] = str(plan.certificate)
    if plan.advertised_host is not None:
        settings["brokerIP1"] = plan.advertised_host
    children: list[_Child] = []
    for letter in string.ascii_lowercase[: plan.broker_count]:
        for number in range(1, plan.replica_count + 2):
            name = f"broker-{letter}"
            port = plan.broker_port and plan.broker_port + len(children) * _PORT_STEP
            own = {
                "brokerName": name,
                "brokerId": str(number),
                "brokerRole": "SYNC_MASTER" if number == 1 else "SLAVE",
                "listenPort": str(port or free_port(host, FAST_PORT_DISTANCE, HA_PORT_DISTANCE)),
            }
            if grpc_ports:
                own["grpcPort"] = str(grpc_ports[len(children)])
            children.append(_broker(directory / f"{name}-{number}", settings | own))
    return children


def _broker(home: Path, settings: dict[str, str]) -> _Child:
    home.mkdir(parents=True, exist_ok=True)
    config = home / "broker.conf"
    config.write_text("".join(f"{key}={text}\n" for key, text in settings.items()))
    name = f"{settings['brokerName']} with brokerId={settings['brokerId']}"
    words = ["broker", "-c", str(config), "--dir", str(home / "store")]
    return _Child(name, [*_ROQUET, *words], home / "broker.log")


def _tls_settings(tls: TlsSettings) -> dict[str, str]:
    """As a broker of its own process reads them from its file."""
    return {
        "tls.server.mode": tls.mode.value,
        "tls.server.certPath": str(tls.server.certificate),
        "tls.server.keyPath": str(tls.server.key),
        "tls.enable": "true",
        "tls.client.trustCertPath": str(tls.client.trusted),
    }
