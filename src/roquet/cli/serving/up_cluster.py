"""Runs a whole cluster in one process: a name server and brokers on one event loop."""

import asyncio
import logging
import os
import string
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec.structs import replace

from roquet.broker.settings.apache_keys import read_config
from roquet.broker.settings.config import SMALL_FILES, BrokerConfig
from roquet.broker.supervisor import BrokerSupervisor, observed, supervised_broker
from roquet.cli.serving.broker_process import check_disk_space, until_stopped
from roquet.cli.serving.grpc_endpoint import grpc_endpoint
from roquet.cli.serving.log_lines import LogForm, log_to_stderr
from roquet.clock import Clock, SystemClock
from roquet.disk import SystemDisk
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.server import serve_names
from roquet.namesrv.state import NameServer
from roquet.net.addresses import local_host, reachable_host
from roquet.net.loop import raise_file_limit, relax_garbage_collection, run_server, stop_signals
from roquet.net.tls.settings import TlsFiles, TlsMode, TlsSettings
from roquet.protocol.host import Address
from roquet.temporary import remove_leftovers, temporary_directory

log = logging.getLogger(__name__)

# A broker takes its port, the one two below and the one above.
_PORT_STEP: Final = 10
# Brokers are named by letters.
BROKER_COUNT_MAX: Final = len(string.ascii_lowercase)
REPLICA_COUNT_MAX: Final = 8


# Messages are accepted at a higher disk usage than usual: the disk of a developer is often full,
# and a development cluster writes little.
_LIMITS: Final = {"diskSpaceWarningLevelRatio": "97"}


class ClusterPlan(msgspec.Struct, frozen=True, kw_only=True):
    directory: Path | None
    host: str
    advertised_host: str | None
    name_server_port: int
    broker_port: int
    broker_count: int
    replica_count: int = 0
    is_encrypted: bool = False
    http_place: Address | None = None
    dashboard_place: Address | None = None
    # Of the first broker; the others have the ports after it.
    grpc_place: Address | None = None
    log_form: LogForm = LogForm.TEXT
    # Automatic failover; then every broker is a process.
    has_failover: bool = False


def run_cluster(plan: ClusterPlan) -> None:
    """Returns after SIGINT or SIGTERM.

    Raises BrokerFailed, OSError, and what brokers and name servers raise when they start.
    """
    log_to_stderr(plan.log_form)
    raise_file_limit()
    with _directory(plan) as directory:
        run_server(_serve(plan, directory))


@contextmanager
def _directory(plan: ClusterPlan) -> Iterator[Path]:
    if plan.directory is not None:
        yield plan.directory
        return
    for path, size in remove_leftovers():
        log.info("removed %s (%d MB), left by a cluster that was killed", path, size >> 20)
    with temporary_directory() as directory:
        log.info("messages are stored in %s, which is deleted at exit", directory)
        yield directory


async def _serve(plan: ClusterPlan, directory: Path) -> None:
    clock, disk = SystemClock(), SystemDisk()
    tls = _tls(plan, directory, clock.now_ms())
    names_config = NameServerConfig(
        host=plan.host,
        port=plan.name_server_port,
        kv_config_path=directory / "namesrv" / "kvConfig.json",
        tls=tls,
    )
    with stop_signals() as stop:
        async with serve_names(names_config, clock, disk) as names:
            if plan.has_failover:
                await _serve_processes(plan, directory, names, stop)
            else:
                await _serve_brokers(plan, directory, names, stop)


async def _serve_processes(
    plan: ClusterPlan, directory: Path, names: NameServer, stop: asyncio.Event
) -> None:
    # Loaded only when needed: it runs processes.
    from roquet.cli.serving.up_failover import FailoverPlan, serve_failover  # noqa: PLC0415

    failover_plan = FailoverPlan(
        host=plan.host,
        advertised_host=plan.advertised_host,
        name_server_port=names.config.port,
        broker_port=plan.broker_port,
        broker_count=plan.broker_count,
        replica_count=plan.replica_count,
        tls=names.config.tls,
        grpc_port=None if plan.grpc_place is None else plan.grpc_place.port,
    )
    await serve_failover(failover_plan, directory, stop)


async def _serve_brokers(
    plan: ClusterPlan, directory: Path, names: NameServer, stop: asyncio.Event
) -> None:
    clock, disk = SystemClock(), SystemDisk()
    tls = names.config.tls
    # Brokers connect locally, whatever host is advertised.
    name_server = str(Address(local_host(plan.host), names.config.port))
    configs = _broker_configs(plan, directory, name_server)
    check_disk_space(configs)
    async with AsyncExitStack() as stack:
        brokers = [
            await stack.enter_async_context(
                supervised_broker(replace(config, tls=tls), clock, disk)
            )
            for config in configs
        ]
        http = await stack.enter_async_context(_pages(plan, names, brokers, clock))
        dashboard = await stack.enter_async_context(_dashboard(plan, name_server, tls))
        places = [
            await stack.enter_async_context(_endpoint(plan, index, broker, clock))
            for index, broker in enumerate(brokers[: plan.broker_count])
        ]
        grpc = f" grpc={','.join(places)}" if plan.grpc_place else ""
        ready = _ready_line(plan, names.config.port, brokers, tls)
        print(ready + http + dashboard + grpc, flush=True)
        relax_garbage_collection()
        await until_stopped(stop, brokers)


@asynccontextmanager
async def _pages(
    plan: ClusterPlan, names: NameServer, brokers: Sequence[BrokerSupervisor], clock: Clock
) -> AsyncIterator[str]:
    """Pages of all servers on one port; yields what the ready line adds."""
    if plan.http_place is None:
        yield ""
        return
    # Loaded only when needed.
    from roquet.monitoring.pages import MonitoredServer, serve_pages  # noqa: PLC0415
    from roquet.namesrv.metrics import MonitoredNameServer  # noqa: PLC0415

    servers: list[MonitoredServer] = [MonitoredNameServer(names), *map(observed, brokers)]
    async with serve_pages(plan.http_place, servers, clock) as port:
        yield f" http={plan.http_place._replace(port=port)}"


@asynccontextmanager
async def _dashboard(plan: ClusterPlan, name_server: str, tls: TlsSettings) -> AsyncIterator[str]:
    """Read-only; yields what the ready line adds. Raises NotInstalled and LoginRequired."""
    if plan.dashboard_place is None:
        yield ""
        return
    # Loaded only when needed.
    from roquet.client.admin.servers import AdminOptions  # noqa: PLC0415
    from roquet.client.config import TlsConfig  # noqa: PLC0415
    from roquet.dashboard.errors import check_installed  # noqa: PLC0415

    check_installed()
    from roquet.dashboard.web.server import DashboardConfig, serve_dashboard  # noqa: PLC0415

    trusted = tls.server.certificate
    config = DashboardConfig(
        place=plan.dashboard_place,
        name_server=name_server,
        options=AdminOptions(tls=trusted is not None and TlsConfig(ca_file=str(trusted))),
    )
    async with serve_dashboard(config) as place:
        yield f" dashboard=http://{place}/"


@asynccontextmanager
async def _endpoint(
    plan: ClusterPlan, index: int, broker: BrokerSupervisor, clock: Clock
) -> AsyncIterator[str]:
    """For clients of 5.x, if the plan has one; yields its address."""
    place = plan.grpc_place
    if place is None:
        yield ""
        return
    port = place.port and place.port + index
    host = plan.advertised_host or reachable_host(place.ip)
    async with grpc_endpoint(place.ip, port, broker, clock, host) as taken_port:
        yield str(Address(host, taken_port or 0))


def _tls(plan: ClusterPlan, directory: Path, now_ms: int) -> TlsSettings:
    if not plan.is_encrypted:
        return TlsSettings()
    host = plan.advertised_host or reachable_host(plan.host)
    return _development_tls(directory / "tls", [host, local_host(plan.host)], now_ms)


def _development_tls(directory: Path, hosts: Iterable[str], now_ms: int) -> TlsSettings:
    """Servers that accept nothing but TLS and verify each other. Raises OSError.

    DIR/tls/certificate.pem    what clients are given: `TlsConfig(ca_file=...)`
    DIR/tls/key.pem            readable by its owner only

    Made once and kept with the messages.
    """
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    if not (certificate.exists() and key.exists()):
        # Loaded only when needed.
        from roquet.net.tls.self_signed import self_signed  # noqa: PLC0415

        made = self_signed(hosts, now_ms)
        directory.mkdir(parents=True, exist_ok=True)
        key.unlink(missing_ok=True)
        descriptor = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(made.key)
        certificate.write_bytes(made.certificate)
    return TlsSettings(
        mode=TlsMode.ENFORCING,
        server=TlsFiles(certificate=certificate, key=key),
        encrypt_calls=True,
        client=TlsFiles(trusted=certificate),
    )


def _ready_line(
    plan: ClusterPlan, name_server_port: int, brokers: Sequence[BrokerSupervisor], tls: TlsSettings
) -> str:
    """Scripts wait for it: the addresses for clients, and the listen address if it differs."""
    host = plan.advertised_host or reachable_host(plan.host)

    def addresses(*, are_slaves: bool) -> str:
        configs = [each.broker.config for each in brokers]
        found = [each for each in configs if each.is_slave == are_slaves]
        return ",".join(str(Address(host, each.listen_port)) for each in found)

    name_server = Address(host, name_server_port)
    line = f"ready name-server={name_server} broker={addresses(are_slaves=False)}"
    if plan.replica_count:
        line += f" slave={addresses(are_slaves=True)}"
    if tls.server.certificate is not None:
        line += f" tls-ca={tls.server.certificate}"
    if host == plan.host:
        return line
    if plan.advertised_host is None:
        log.info("advertised host %s was detected; set it with --advertise HOST", host)
    return f"{line} listening-on={plan.host}"


def _broker_configs(plan: ClusterPlan, directory: Path, name_server: str) -> list[BrokerConfig]:
    """Masters first, so that slaves find them at once; each has the next free ports."""
    names = [f"broker-{letter}" for letter in string.ascii_lowercase[: plan.broker_count]]
    masters = [(directory / name, {"brokerName": name}) for name in names]
    slaves = [
        (
            directory / f"{name}-slave-{number}",
            {"brokerName": name, "brokerRole": "SLAVE", "brokerId": str(number)},
        )
        for name in names
        for number in range(1, plan.replica_count + 1)
    ]
    return [
        _broker_config(plan, root, index, given | {"namesrvAddr": name_server})
        for index, (root, given) in enumerate((*masters, *slaves))
    ]


def _broker_config(
    plan: ClusterPlan, root: Path, index: int, given: dict[str, str]
) -> BrokerConfig:
    config, _ = read_config(SMALL_FILES | _found_sizes(root) | _LIMITS | given, root)
    port = plan.broker_port and plan.broker_port + index * _PORT_STEP
    return replace(
        config, bind_address=plan.host, advertised_host=plan.advertised_host, listen_port=port
    )


def _found_sizes(root: Path) -> dict[str, str]:
    """File sizes of an existing store, as settings: a broker has to continue with them.

    Raises OSError.
    """
    patterns = {
        "mappedFileSizeCommitLog": "commitlog/*",
        "mappedFileSizeConsumeQueue": "consumequeue/*/*/*",
    }
    sizes = {key: next(_sizes(root, pattern), None) for key, pattern in patterns.items()}
    return {key: str(size) for key, size in sizes.items() if size is not None}


def _sizes(root: Path, pattern: str) -> Iterator[int]:
    for path in root.glob(pattern):
        # A crash of an Apache broker may leave an empty file.
        if path.name.isdigit() and (size := path.stat().st_size):
            yield size
