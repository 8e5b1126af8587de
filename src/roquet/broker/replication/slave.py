"""The slave's end of replication: one link to its master, reconnected whenever it is lost."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final, final

from roquet.broker.registration import identity_of
from roquet.broker.replication.decisions import check_cut
from roquet.broker.replication.epochs import START, SharedSecret
from roquet.broker.replication.errors import (
    CutRefused,
    Diverged,
    LinkClosed,
    LinkError,
    Rejected,
    reason_of,
)
from roquet.broker.replication.frames import FrameReader, encode_epoch_report, encode_report
from roquet.broker.replication.handshake import Registration, register_at_master
from roquet.broker.replication.in_sync import AckRule
from roquet.broker.replication.replica_progress import do_nothing
from roquet.broker.settings.config import BrokerConfig
from roquet.clock import Clock
from roquet.net.addresses import split_address
from roquet.net.byte_stream import ByteStream, connect_stream
from roquet.net.errors import NetError, TlsRefused
from roquet.net.limits import DEFAULT_LIMITS
from roquet.net.peers import CONNECT_TIMEOUT_S
from roquet.net.service import run_until_first_fails
from roquet.state_file import StateFileError
from roquet.store.errors import StoreError
from roquet.store.message_store import MessageStore
from roquet.store.replica_log import Grown, ReplicaLog
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

_RETRY_PAUSE_S: Final = 1.0
_ADDRESS_PAUSE_S: Final = 0.1
_REMINDER_S: Final = 600.0
_BUFFER_SIZE: Final = 512 * 1024
_NO_MASTER: Final = (
    "not replicating: no name server knows a live master of this broker name, and haMasterAddress"
    " is not set"
)


@final
class MasterLink:
    """Belongs to the event loop. `on_grown` is called with the queues that have new messages."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        store: MessageStore,
        *,
        master_address: Callable[[], str | None],
        on_grown: Callable[[Grown], None],
        secret: SharedSecret | None = None,
        on_diverged: Callable[[int], None] = lambda _end: None,
        tls: Callable[[], "ssl.SSLContext | None"] = lambda: None,
    ) -> None:
        """`master_address` is where the master sends its log, None while that is unknown.

        What `tls` gives for a link encrypts it.

        `on_diverged` is called with the end that the log has to be cut to before it can continue.
        """
        self._config = config
        self._secret = secret
        self._tls = tls
        self._on_diverged = on_diverged
        # What lies before it is known to be acknowledged, and never cut; the start without etcd.
        self.acknowledged = START
        # Called before the first byte of a new link, which may be one to another master.
        self.on_linked: Callable[[], None] = do_nothing
        self._clock = clock
        self._store = store
        self._copy: ReplicaLog = store.follow()
        self._master_address = master_address
        self._on_grown = on_grown
        self._report_s = config.ha_heartbeat_interval_ms / 1000
        self._silence_s_max = config.ha_silence_ms_max / 1000
        self._has_news = asyncio.Event()
        self._received_at_s = 0.0
        self._failures = ThrottledLog(log, clock.monotonic_s, _REMINDER_S)
        # Where the log comes from; None without a link.
        self.master: str | None = None
        # Why there is none, if retrying does not help.
        self.problem: str | None = None
        # Of the link, if both are ours: the epoch of its master, and how far that has come.
        self.epoch: int | None = None
        self._frames = FrameReader()
        self._caught_up_at_s = clock.monotonic_s()
        self._is_held = False

    def report_soon(self) -> None:
        """More is stored, or safe, than was reported to the master."""
        self._has_news.set()

    def hold(self) -> None:
        """Receives no more of the log, from now on until `resume`."""
        self._is_held = True
        self._has_news.set()

    def resume(self) -> None:
        self._is_held = False

    @property
    def lag_size(self) -> int:
        """How many bytes the master has, as far as it reported, and this slave does not."""
        end = self._frames.master_end
        return 0 if end is None else max(0, end - self._store.log_end)

    @property
    def lag_s(self) -> float:
        """For how long this slave has not had all that its master has, or has had no master."""
        if self.master is not None and self.lag_size == 0:
            return 0.0
        return self._clock.monotonic_s() - self._caught_up_at_s

    async def follow(self) -> None:
        """Never returns."""
        while True:
            address = None if self._is_held else self._master_address()
            if address is None:
                if not self._is_held:
                    self._failures.warning(_NO_MASTER, _NO_MASTER)
                # It is found by another task.
                await asyncio.sleep(_ADDRESS_PAUSE_S)
                continue
            try:
                await self._replicate_from(address)
            except Diverged as diverged:
                log.warning("master %s: %s", address, diverged)
                self._on_diverged(diverged.common_end)
            except (CutRefused, Rejected) as error:
                self.problem = f"master {address}: {error}"
                self._failures.warning(self.problem, self.problem)
            except (LinkError, NetError, TlsRefused, StoreError, StateFileError, OSError) as error:
                text = f"replication from master {address} failed, retrying: {reason_of(error)}"
                self._failures.warning(text, text)
            await asyncio.sleep(_RETRY_PAUSE_S)

    async def _replicate_from(self, address: str) -> None:
        """Raises LinkError, NetError, TlsRefused, StoreError, StateFileError and OSError."""
        host, port = split_address(address)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.socket(family) as sock:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await asyncio.get_running_loop().sock_connect(sock, (host, port))
            stream = await self._stream(sock, host)
            if self._secret is not None:
                await self._register(stream, self._secret)
            self.on_linked()
            log.info(
                "replicating from master %s, starting at offset %d", address, self._copy.begin()
            )
            self._frames = FrameReader(self.epoch)
            self._received_at_s = self._clock.monotonic_s()
            self.master = address
            self.problem = None
            try:
                await run_until_first_fails(self._report(stream), self._receive(stream))
            finally:
                self.master = None

    async def _stream(self, sock: socket.socket, host: str) -> ByteStream:
        """Raises TlsRefused and OSError."""
        limit_s = DEFAULT_LIMITS.handshake_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                return await connect_stream(sock, host, self._tls())
        except TimeoutError:
            raise TlsRefused(
                f"no TLS handshake within {limit_s:g} s; Apache's masters do not support TLS for"
                " slaves"
            ) from None

    async def _register(self, stream: ByteStream, secret: SharedSecret) -> None:
        """Raises LinkError, TlsRefused, StateNotSaved and OSError."""
        epochs, config, store = secret.epochs, self._config, self._store

        def registration() -> Registration:
            return Registration(
                epochs.author,
                epochs.seen,
                epochs.history.starts,
                store.log_start,
                store.log_end,
                identity_of(config).address,
            )

        admission = await register_at_master(
            stream,
            secret.key,
            cluster=config.cluster_name,
            broker_name=config.broker_name,
            replica_id=config.broker_id,
            registration=registration,
        )
        if self._is_held:
            raise LinkClosed("it is no longer the master")
        if admission.go_on_at < store.log_end:
            check_cut(
                epochs.history,
                store.log_start,
                store.log_end,
                cut_end=admission.go_on_at,
                acknowledged=self.acknowledged,
            )
            raise Diverged(admission.go_on_at, store.log_end)
        self._compare_rules(admission.ack_rule)
        # Before the first byte of it is written.
        epochs.follow(admission.epoch, admission.epochs, admission.ack_rule)
        self.epoch = admission.epoch

    def _compare_rules(self, of_master: AckRule | None) -> None:
        own = self._config.own_ack_rule
        if own is None or of_master is None or own.replicas_needed >= of_master.replicas_needed:
            return
        log.warning(
            "this broker acknowledges with %s, its master with %s: messages would be less safe if"
            " it became the master. Set replication.acknowledge to the same value everywhere, or"
            " omit it on slaves",
            own.policy.value,
            of_master.policy.value,
        )

    async def _receive(self, stream: ByteStream) -> None:
        frames = self._frames
        buffer = memoryview(bytearray(_BUFFER_SIZE))
        while True:
            size = await stream.receive_into(buffer)
            if not size:
                raise LinkClosed("the peer closed the link; see its log for the reason")
            if self._is_held:
                raise LinkClosed("it is no longer the master")
            self._received_at_s = self._clock.monotonic_s()
            self._copy.write(frames.pieces(buffer[:size]))
            self._take_over()
            if self.lag_size == 0:
                self._caught_up_at_s = self._received_at_s
            await asyncio.sleep(0)  # Let other tasks run.

    def _take_over(self) -> None:
        grown = self._copy.grow()
        for damage in grown.damages:
            log.error("damaged part of the master's log: %s", damage)
        if grown.queues:
            self._on_grown(grown)
            self._failures.clear_all()
            self._has_news.set()

    async def _report(self, stream: ByteStream) -> None:
        """Reports how far the log is whenever it has grown, and as a heartbeat."""
        loop = asyncio.get_running_loop()
        while True:
            self._has_news.clear()
            # With sync flush, what is confirmed survives a power cut here, too.
            await stream.send_all(self._report_now())
            timer = loop.call_later(self._report_s, self._has_news.set)
            try:
                await self._has_news.wait()
            finally:
                timer.cancel()
            if self._is_held:
                raise LinkClosed("it is no longer the master")
            if self._clock.monotonic_s() - self._received_at_s > self._silence_s_max:
                raise LinkClosed(f"nothing received for {self._silence_s_max:g} s")

    def _report_now(self) -> bytes:
        end = self._store.stored_end
        return encode_report(end) if self.epoch is None else encode_epoch_report(self.epoch, end)
