"""Supervises one broker and restarts it in place when a role change requires reopening the store.

                    promoted, in place (`promotion`)
        +-------+ ----------------------------------> +--------+
        | slave |                                     | master |
        +-------+ <---------------------------------- +--------+
          |   ^     steps down: restarts
          +---+
          has what its master never had: restarts without it

A restart ends and starts everything as a new process would, at the same ports, in the same process.
It closes all connections.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, final

from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.loading import StartState, port_context_of
from roquet.broker.registration import identity_of
from roquet.broker.replication.epochs import AssignedRole, EpochFile, SharedSecret
from roquet.broker.replication.leadership import Succession, succession_by, successor
from roquet.broker.replication.other_brokers import OtherBrokers
from roquet.broker.replication.replication import RestartAsSlave
from roquet.broker.server import reachable, serve_broker
from roquet.broker.settings.config import BrokerConfig, read_secret
from roquet.clock import Clock
from roquet.disk import Disk
from roquet.errors import RoquetError
from roquet.net.address_server import read_source
from roquet.net.peers import Peers
from roquet.net.router import Router
from roquet.net.service import OnFailure, Services
from roquet.net.tls.contexts import ClientTls
from roquet.protocol.host import Address
from roquet.settings.options import ConfigError
from roquet.store.log_scan import NO_END

if TYPE_CHECKING:
    from roquet.broker.metrics.monitored_broker import Measure, MonitoredBroker

log = logging.getLogger(__name__)

# Name servers that take longer learn of it in the background.
_REGISTRATION_TIMEOUT_S: Final = 3.0


@final
class BrokerSupervisor:
    """`broker` is the current one; `has_failed` is set when there is none, and will be none."""

    def __init__(self, config: BrokerConfig, clock: Clock, disk: Disk) -> None:
        """Raises ConfigError, TlsNotUsable and BadStateFile."""
        self._config = config
        self.etcd_tls = ClientTls(config.etcd_files) if config.etcd_is_encrypted else None
        self._clock = clock
        self._disk = disk
        self._ports = port_context_of(config, clock)
        self.secret: SharedSecret | None = None
        if config.replication_secret_file is not None:
            epochs = EpochFile(disk, config.store.root)
            self.secret = SharedSecret(read_secret(config.replication_secret_file), epochs)
            _check_founding(config, epochs)
        self._broker: Broker | None = None
        self._is_serving = False
        self._has_begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_stopping = asyncio.Event()
        # The port of its pages, if it has any.
        self.http_port: int | None = None
        self._grpc_place: Address | None = None
        # Of what serves beside the broker.
        self.measured_beside: list[Measure] = []
        self.has_failed = asyncio.Event()
        self.failure = "it cannot trust its disk any more"

    @property
    def broker(self) -> Broker:
        """The last one, while there is none for a moment."""
        assert self._broker is not None, "it has not begun"
        return self._broker

    @property
    def serving(self) -> Broker | None:
        """None while there is none for a moment."""
        return self._broker if self._is_serving else None

    async def begun(self) -> None:
        """Raises what `serve_broker` raises."""
        await asyncio.shield(self._has_begun)

    def reload(self) -> None:
        """Read the certificates again. Raises TlsNotUsable."""
        self._ports.tls.reload()
        if self.etcd_tls is not None:
            self.etcd_tls.reload()

    async def register_endpoint(self, grpc_place: Address) -> None:
        """Registers where clients of gRPC find this broker, and the ones that it becomes."""
        self._grpc_place = grpc_place
        self._register_endpoint(self.broker)
        registrar = self.broker.registrar
        try:
            async with asyncio.timeout(_REGISTRATION_TIMEOUT_S):
                await registrar.until_registered()
        except TimeoutError:
            registrar.refresh_soon()

    def _register_endpoint(self, broker: Broker) -> None:
        if self._grpc_place is not None:
            # For those who ask the broker itself.
            broker.config = replace(broker.config, grpc_port=self._grpc_place.port)
            broker.registrar.register_endpoint(self._grpc_place)

    def stop(self) -> None:
        self._is_stopping.set()

    async def run(self) -> None:
        """Until it is stopped, or nothing can be served any more; `has_failed` has which."""
        cut_end = NO_END
        try:
            config = await self._first_config()
            while (restart := await self._serve(config, cut_end)) is not None:
                port = self.broker.config.listen_port
                config = replace(self._config.as_slave(restart.broker_id), listen_port=port)
                cut_end = NO_END if restart.cut_end is None else restart.cut_end
                log.warning("%s restarts as slave %d", config.broker_name, restart.broker_id)
        except (RoquetError, OSError) as error:
            if not self._has_begun.done():
                self._has_begun.set_exception(error)
                return
            if self._is_stopping.is_set():
                raise
            self.failure = str(error)
            self.has_failed.set()

    def ended(self, running: asyncio.Future[None]) -> None:
        """A fault of ours ends it like a failed disk: it must not stay and serve nothing."""
        error = None if running.cancelled() else running.exception()
        if error is None:
            return
        if not self._has_begun.done():
            self._has_begun.set_exception(error)
        elif not self._is_stopping.is_set():
            self.failure = repr(error)
            self.has_failed.set()

    async def _serve(self, config: BrokerConfig, cut_end: int) -> RestartAsSlave | None:
        """How to restart; None when it is stopped."""
        start = StartState(self.secret, cut_end, self._ports)
        async with serve_broker(config, self._clock, self._disk, start) as broker:
            self._broker = broker
            self._register_endpoint(broker)
            self._is_serving = True
            if not self._has_begun.done():
                self._has_begun.set_result(None)
            restart = broker.replication.restart_request
            failing = asyncio.ensure_future(broker.messages.acks.has_failed.wait())
            stopping = asyncio.ensure_future(self._is_stopping.wait())
            waits: list[asyncio.Future[Any]] = [failing, stopping, restart]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if failing.done():
                    self.has_failed.set()
                    # The process has to be ended by its owner.
                    await stopping
                return None if stopping.done() else restart.result()
            finally:
                self._is_serving = False
                failing.cancel()
                stopping.cancel()

    async def _first_config(self) -> BrokerConfig:
        """Raises StateNotSaved, TlsNotUsable and UnknownHost."""
        config = self._appointed()
        if self.secret is None or config.etcd or config.is_slave:
            return config
        succession = await self._succession(config)
        if succession is None:
            return config
        self.secret.epochs.be_succeeded(succession.by.epoch, slave_id=succession.free_id)
        log.warning(
            "%s is the master of %s in epoch %d: this broker starts as its slave, with id %d",
            succession.by.address,
            config.broker_name,
            succession.by.epoch,
            succession.free_id,
        )
        return config.as_slave(succession.free_id)

    async def _succession(self, config: BrokerConfig) -> Succession | None:
        """Whether another broker was made the master while this one was away."""
        assert self.secret is not None
        servers = read_source(";".join(config.name_servers)).addresses
        peers = Peers(Router(None, ()), self._clock, tls=self._ports.tls.outgoing)
        try:
            identity = identity_of(reachable(config))
            identity = replace(identity, broker_id=config.replica_id)
            others = OtherBrokers(peers, config.own_account, identity, lambda: servers)
            master = successor(self.secret.epochs.seen, await others.masters())
            return None if master is None else await succession_by(master, others)
        finally:
            await peers.close()

    def _appointed(self) -> BrokerConfig:
        config = self._config
        role = None if self.secret is None else self.secret.epochs.assigned_role
        if config.etcd:
            # The next master will be promoted.
            return config.as_slave(config.replica_id)
        if role is None:
            return config
        if role.is_master == config.is_slave:
            log.warning("an operator has made %s a %s", config.broker_name, _role_name(role))
        if not role.is_master:
            return config.as_slave(role.broker_id)
        assert self.secret is not None, "it remembers the role"
        return config.as_master(self.secret.epochs.ack_rule)


def _check_founding(config: BrokerConfig, epochs: EpochFile) -> None:
    """Raises ConfigError: founding makes a master without an election, so it counts only once."""
    if config.is_to_found and epochs.has_founded:
        reason = "this broker has done so already: start it without it from now on"
        raise ConfigError("--found", "true", reason)
    epochs.note_founded(is_founded=False)


def _role_name(role: AssignedRole) -> str:
    return "master" if role.is_master else f"slave with id {role.broker_id}"


@asynccontextmanager
async def supervised_broker(
    config: BrokerConfig, clock: Clock, disk: Disk
) -> AsyncIterator[BrokerSupervisor]:
    """Serves while the block runs. Raises ConfigError, and what `serve_broker` raises."""
    supervisor = BrokerSupervisor(config, clock, disk)
    running = asyncio.ensure_future(supervisor.run())
    running.add_done_callback(supervisor.ended)
    try:
        await supervisor.begun()
        async with _participant(supervisor, config, clock), _pages(supervisor, config, clock):
            yield supervisor
    finally:
        supervisor.stop()
        await running


@asynccontextmanager
async def _participant(
    supervisor: BrokerSupervisor, config: BrokerConfig, clock: Clock
) -> AsyncIterator[None]:
    """With etcd, whatever the broker becomes, it keeps taking part in failover."""
    if not config.etcd:
        yield
        return
    try:
        # Without etcd its client is not loaded.
        from roquet.broker.replication.failover.participant import FailoverParticipant  # noqa: PLC0415
    except ModuleNotFoundError as error:
        reason = f"{error.name} is not installed: pip install 'roquet[failover]'"
        raise ConfigError("replication.etcd", ",".join(config.etcd), reason) from None

    participant = FailoverParticipant(
        config, clock, lambda: supervisor.serving, supervisor.etcd_tls
    )
    async with Services(f"{config.broker_name} and etcd") as services:
        services.run("take part in failover", participant.run, on_failure=OnFailure.RESTART)
        yield


@asynccontextmanager
async def _pages(
    supervisor: BrokerSupervisor, config: BrokerConfig, clock: Clock
) -> AsyncIterator[None]:
    """Whatever the broker becomes, it is watched at the same place."""
    if config.http_place is None:
        yield
        return
    # A broker that is not watched does not pay for loading it.
    from roquet.monitoring.pages import serve_pages  # noqa: PLC0415

    async with serve_pages(
        config.http_place, [observed(supervisor)], clock
    ) as supervisor.http_port:
        yield


def observed(supervisor: BrokerSupervisor) -> "MonitoredBroker":
    """The current broker, as monitoring sees it."""
    from roquet.broker.metrics.monitored_broker import MonitoredBroker  # noqa: PLC0415

    name = supervisor.broker.config.broker_name
    return MonitoredBroker(name, lambda: supervisor.serving, supervisor.measured_beside)
