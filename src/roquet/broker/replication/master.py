"""The master's end of replication: a port, and a link for each slave that has connected to it."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Final, final

from roquet.broker.registration import identity_of
from roquet.broker.replication.decisions import admission, first_position
from roquet.broker.replication.epochs import SharedSecret
from roquet.broker.replication.errors import (
    DuplicateReplica,
    LinkClosed,
    LinkError,
    NotTrusted,
    SlaveAhead,
    SlaveBehind,
    reason_of,
)
from roquet.broker.replication.frames import OutgoingFrames, ReportReader, encode_epoch_header
from roquet.broker.replication.handshake import (
    MAGIC,
    Admission,
    Hello,
    Registration,
    accept_slave,
    received_exactly,
)
from roquet.broker.replication.in_sync import Replica
from roquet.broker.replication.replica_progress import ReplicaProgress, Slave
from roquet.broker.settings.config import BrokerConfig
from roquet.clock import Clock
from roquet.net.byte_stream import ByteStream, PlainStream, accept_stream, accepted
from roquet.net.errors import AddressTaken, TlsNotUsable, TlsRefused
from roquet.net.service import OnFailure, Services, run_until_first_fails
from roquet.net.tls.contexts import ServerTls
from roquet.protocol.host import Address
from roquet.store.message_store import MessageStore
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

# Connections need no authentication here, so strangers must not take all descriptors.
LINK_COUNT_MAX: Final = 32
_BACKLOG: Final = 16


@final
class SlaveLinks:
    """Belongs to the event loop; everything ends with `services`."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        store: MessageStore,
        replicas: ReplicaProgress,
        services: Services,
        *,
        secret: SharedSecret | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        """Without `secret`, slaves speak Apache's protocol; without `tls`, unencrypted."""
        # Whether a slave may connect from an address; set where there is a guard.
        self.may_follow: Callable[[str], bool] = lambda _ip: True
        self._refusals = ThrottledLog(log, clock.monotonic_s)
        self._config = config
        self._clock = clock
        self._store = store
        self.replicas = replicas
        self._services = services
        self.secret: Final = secret
        self._tls = tls
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._links: set[SlaveLink] = set()

    def start(self, config: BrokerConfig) -> None:
        """Listens, as the master that `config` describes. Raises OSError, such as AddressTaken."""
        self._config = config
        host, port = config.bind_host, config.ha_port
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise AddressTaken(host, port) from None
            raise
        self._listener.setblocking(False)
        self._accepting = self._services.run(
            "accept slaves", self._accept, on_failure=OnFailure.RESTART
        )

    def stop(self) -> None:
        """Accepts no more slaves."""
        if self._listener is not None and self._accepting is not None:
            self._accepting.cancel()
            # Not before the loop has stopped looking at it.
            asyncio.get_running_loop().call_soon(self._listener.close)

    def wake(self) -> None:
        """A sender waits for what was stored last."""
        for link in self._links:
            link.wake()

    async def _accept(self) -> None:
        assert self._listener is not None
        while True:
            sock, peer = await accepted(self._listener)
            address = str(Address(peer[0], peer[1]))
            if not self.may_follow(peer[0]):
                self._log_refusal("address", address, "no account trusts its address")
                sock.close()
                continue
            if len(self._links) >= LINK_COUNT_MAX:
                self._log_refusal(
                    "count", address, f"{LINK_COUNT_MAX} slaves are connected already"
                )
                sock.close()
                continue
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = SlaveLink(
                sock,
                address,
                self._config,
                self._clock,
                self._store,
                self.replicas,
                secret=self.secret,
                tls=self._tls,
            )
            self._links.add(link)
            self._services.once(f"slave {address}", partial(self._serve, link))

    async def _serve(self, link: "SlaveLink") -> None:
        try:
            await link.serve()
        except (TlsRefused, TlsNotUsable) as error:
            self._log_refusal("encryption", link.address, str(error))
        except DuplicateReplica as error:
            self._log_refusal("brokerId", link.address, str(error))
        except (LinkError, OSError) as error:
            log.warning("slave %s disconnected: %s", link.address, reason_of(error))
        finally:
            self._links.discard(link)
            link.close()

    def _log_refusal(self, kind: str, address: str, reason: str) -> None:
        """Not every second: a refused slave reconnects."""
        self._refusals.warning(kind, f"refusing slave {address}: {reason}")


_REPORTS_SIZE: Final = 4096
# How soon a slave gets what no sender waits for: soon while there is something to send.
_BUSY_PAUSE_S: Final = 0.01
_IDLE_PAUSE_S: Final = 0.1
_BUSY_S: Final = 1.0


@final
class SlaveLink:
    """One slave's link: what is sent, and what is confirmed. Belongs to the event loop."""

    def __init__(
        self,
        sock: socket.socket,
        address: str,
        config: BrokerConfig,
        clock: Clock,
        store: MessageStore,
        replicas: ReplicaProgress,
        *,
        secret: SharedSecret | None,
        tls: ServerTls | None,
    ) -> None:
        self._config = config
        self._secret = secret
        self._tls = tls
        self._socket = sock
        # Until its first bytes arrive.
        self._stream: ByteStream = PlainStream(sock)
        self.address = address
        self._clock = clock
        self._store = store
        self._replicas = replicas
        self._frame_size_max = config.ha_frame_size_max
        self._heartbeat_s = config.ha_heartbeat_interval_ms / 1000
        self._silence_s_max = config.ha_silence_ms_max / 1000
        self._reports = ReportReader()
        self._is_wanted = asyncio.Event()
        self._received_at_s = self._sent_at_s = clock.monotonic_s()

    def wake(self) -> None:
        self._is_wanted.set()

    def close(self) -> None:
        self._stream.close()

    async def serve(self) -> None:
        """Raises LinkError, TlsRefused, TlsNotUsable and OSError, such as TimeoutError.

        Never returns.
        """
        async with asyncio.timeout(self._silence_s_max):
            self._stream, start = await accept_stream(self._socket, self._tls)
            first = start + await received_exactly(self._stream, len(MAGIC) - len(start))
        if first == MAGIC:
            slave, outgoing = await self._registered()
        else:
            slave, outgoing = self._apache_slave(first)
        log.info("slave %s replicates from offset %d", self.address, slave.sent_end)
        self._replicas.join(slave)
        try:
            await run_until_first_fails(self._read_reports(slave), self._send(slave, outgoing))
        finally:
            self._replicas.leave(slave)

    def _apache_slave(self, first: bytes) -> tuple[Slave, OutgoingFrames]:
        """One that speaks Apache's protocol. Raises LinkError."""
        if self._secret is not None and not self._config.takes_plain_slaves:
            raise NotTrusted
        reported = self._reports.last(first)
        assert reported is not None
        position = first_position(reported, self._store.log_start, self._store.log_end)
        return Slave(self.address, reported, position), OutgoingFrames(
            position, self._frame_size_max
        )

    async def _registered(self) -> tuple[Slave, OutgoingFrames]:
        """One of ours. Raises LinkError, TlsRefused and OSError."""
        secret, config, store = self._secret, self._config, self._store
        if secret is None:
            raise NotTrusted
        epochs, epoch = secret.epochs, secret.epochs.history.latest

        def admit(hello: Hello, registration: Registration) -> Admission:
            replica = Replica(hello.replica_id, registration.author)
            self._check_number(replica, registration.address or self.address)
            return admission(
                registration,
                epochs.history,
                store.log_start,
                store.log_end,
                is_elected=bool(config.etcd),
                ack_rule=config.ack_rule,
            )

        accepted = await accept_slave(
            self._stream,
            secret.key,
            cluster=config.cluster_name,
            broker_name=config.broker_name,
            admit=admit,
        )
        self._reports = ReportReader(epoch)

        def header(position: int, size: int) -> bytes:
            return encode_epoch_header(epoch, store.log_end, position, size)

        position = first_position(accepted.admission.go_on_at, store.log_start, store.log_end)
        # What it has confirmed is in its first report.
        replica = Replica(accepted.hello.replica_id, accepted.registration.author)
        address = accepted.registration.address or self.address
        slave = Slave(self.address, 0, position, replica, address)
        return slave, OutgoingFrames(position, self._frame_size_max, header)

    def _check_number(self, replica: Replica, address: str) -> None:
        """Raises DuplicateReplica: two stores under one number would count as one."""
        holder = self._replicas.other_store_of(replica)
        if self._config.etcd and replica.replica_id == self._config.replica_id:
            taken_by = identity_of(self._config).address
        elif holder is not None:
            taken_by = holder.broker_address
        else:
            return
        error = DuplicateReplica(replica.replica_id, taken_by, address)
        self._replicas.note_duplicate(str(error))
        raise error

    async def _report(self, buffer: memoryview) -> int | None:
        """The last report there is; None if it is not whole.

        Raises LinkClosed, TlsRefused and OSError.
        """
        size = await self._stream.receive_into(buffer)
        if not size:
            raise LinkClosed("the peer closed the link")
        self._received_at_s = self._clock.monotonic_s()
        return self._reports.last(bytes(buffer[:size]))

    async def _read_reports(self, slave: Slave) -> None:
        buffer = memoryview(bytearray(_REPORTS_SIZE))
        while True:
            end = await self._report(buffer)
            if end is not None:
                if end > self._store.log_end:
                    raise SlaveAhead(end, self._store.log_end)
                self._replicas.confirm(slave, end)

    async def _send(self, slave: Slave, outgoing: OutgoingFrames) -> None:
        while True:
            now_s = self._clock.monotonic_s()
            if outgoing.position < self._store.log_start:
                raise SlaveBehind(outgoing.position, self._store.log_start)
            if now_s - self._received_at_s > self._silence_s_max:
                raise LinkClosed(f"nothing received for {self._silence_s_max:g} s")
            # With sync flush, a slave must not have what a power cut can take from its master.
            buffers = outgoing.buffers(self._store.stored_end, self._store.log_view)
            if buffers:
                await self._send_some(outgoing, buffers)
                slave.sent_end = outgoing.position
            elif now_s - self._sent_at_s >= self._heartbeat_s:
                outgoing.heartbeat()
            else:
                await self._until_wanted(now_s)

    async def _send_some(self, outgoing: OutgoingFrames, buffers: list[bytes | memoryview]) -> None:
        try:
            size = self._stream.send_some(buffers)
        finally:
            for buffer in buffers:
                if isinstance(buffer, memoryview):
                    buffer.release()
        outgoing.sent(size)
        if size:
            self._sent_at_s = self._clock.monotonic_s()
        if self._stream.is_full:
            async with asyncio.timeout(self._silence_s_max):
                await self._stream.until_writable()
        else:
            await asyncio.sleep(0)  # Let other tasks run.

    async def _until_wanted(self, now_s: float) -> None:
        is_busy = now_s - self._sent_at_s < _BUSY_S
        self._is_wanted.clear()
        timer = asyncio.get_running_loop().call_later(
            _BUSY_PAUSE_S if is_busy else _IDLE_PAUSE_S, self._is_wanted.set
        )
        try:
            await self._is_wanted.wait()
        finally:
            timer.cancel()
