"""A slave's side of replication: one link to its master, made again whenever it is lost."""

import asyncio
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Final, final

from roquet.broker.registration import identity_of
from roquet.broker.replication.decisions import check_cut
from roquet.broker.replication.epochs import START
from roquet.broker.replication.errors import (
    CutRefused,
    Diverged,
    LinkClosed,
    LinkError,
    Rejected,
    reason_of,
)
from roquet.broker.replication.frames import FrameReader, encode_epoch_report, encode_report
from roquet.broker.replication.handshake import Registration, greet_master
from roquet.broker.replication.in_sync import AckRule
from roquet.broker.replication.replica_progress import do_nothing
from roquet.broker.replication.run_until_first_fails import run_until_first_fails
from roquet.broker.replication.secret import SharedSecret
from roquet.broker.settings.config import BrokerConfig
from roquet.clock import Clock
from roquet.net.byte_stream import ByteStream, connect_stream
from roquet.net.errors import NetError, TlsRefused
from roquet.net.limits import DEFAULT_LIMITS
from roquet.net.peers import CONNECT_TIMEOUT_S, split_address
from roquet.state_file import StateFileError
from roquet.store.errors import StoreError
from roquet.store.message_store import MessageStore
from roquet.store.replica_log import Grown, ReplicaLog

log = logging.getLogger(__name__)

_RETRY_PAUSE_S: Final = 1.0
_LOOK_PAUSE_S: Final = 0.1
_REMINDER_S: Final = 600.0
_BUFFER_SIZE: Final = 512 * 1024
_NO_MASTER: Final = (
    "nothing is copied: no name server knows a living master of this name, and haMasterAddress"
    " names none"
)


@final
class MasterLink:
    """Belongs to the event loop. `on_grown` hears which queues have new messages."""

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
        tls: Callable[[], ssl.SSLContext | None] = lambda: None,
    ) -> None:
        """`master_address` says where the master sends its log, None if nobody knows.

        What `tls` gives for a link encrypts it.

        `on_diverged` hears behind what the log has to be cut before it can go on.
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
        self._heard_at_s = 0.0
        self._said = ""
        self._said_at_s = 0.0
        # Where the log comes from now; None without a link.
        self.master: str | None = None
        # Why there is none, if trying again does not help.
        self.problem: str | None = None
        # Of the link, if both are ours: the epoch of its master, and how far that has come.
        self.epoch: int | None = None
        self._frames = FrameReader()
        self._caught_up_at_s = clock.monotonic_s()
        self._is_held = False

    def report_soon(self) -> None:
        """More is stored, or safe, than the master was told."""
        self._has_news.set()

    def hold(self) -> None:
        """Take no more of the log, from this very moment on, until `go_on`."""
        self._is_held = True
        self._has_news.set()

    def go_on(self) -> None:
        self._is_held = False

    @property
    def lag_size(self) -> int:
        """How much the master has, as far as it said so, and this slave does not."""
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
                    self._say(_NO_MASTER)
                # Others ask the name servers, and do not tell us.
                await asyncio.sleep(_LOOK_PAUSE_S)
                continue
            try:
                await self._copy_from(address)
            except Diverged as diverged:
                log.warning("master %s: %s", address, diverged)
                self._on_diverged(diverged.common_end)
            except (CutRefused, Rejected) as error:
                self.problem = f"master {address}: {error}"
                self._say(self.problem)
            except (LinkError, NetError, TlsRefused, StoreError, StateFileError, OSError) as error:
                self._say(f"master {address}: {reason_of(error)}")
            await asyncio.sleep(_RETRY_PAUSE_S)

    async def _copy_from(self, address: str) -> None:
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
                await self._greet(stream, self._secret)
            self.on_linked()
            log.info("following master %s from %d on", address, self._copy.begin())
            self._frames = FrameReader(self.epoch)
            self._heard_at_s = self._clock.monotonic_s()
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
                f"it did not complete a TLS handshake within {limit_s:g} s; Apache's masters speak"
                " no TLS with slaves"
            ) from None

    async def _greet(self, stream: ByteStream, secret: SharedSecret) -> None:
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

        admission = await greet_master(
            stream,
            secret.key,
            cluster=config.cluster_name,
            broker_name=config.broker_name,
            replica_id=config.broker_id,
            registration=registration,
        )
        if self._is_held:
            raise LinkClosed("it is not the master any more")
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
            "this broker would acknowledge with %s, its master does with %s: senders are promised"
            " less when it becomes the master. Set replication.acknowledge to the same everywhere,"
            " or leave it out at slaves",
            own.policy.value,
            of_master.policy.value,
        )

    async def _receive(self, stream: ByteStream) -> None:
        frames = self._frames
        buffer = memoryview(bytearray(_BUFFER_SIZE))
        while True:
            size = await stream.receive_into(buffer)
            if not size:
                raise LinkClosed("it has closed the link; its log says why")
            if self._is_held:
                raise LinkClosed("it is not the master any more")
            self._heard_at_s = self._clock.monotonic_s()
            self._copy.write(frames.pieces(buffer[:size]))
            self._take_over()
            if self.lag_size == 0:
                self._caught_up_at_s = self._heard_at_s
            await asyncio.sleep(0)  # Others have their turn.

    def _take_over(self) -> None:
        grown = self._copy.grow()
        for damage in grown.damages:
            log.error("damaged part of the master's log: %s", damage)
        if grown.queues:
            self._on_grown(grown)
            self._said = ""
            self._has_news.set()

    async def _report(self, stream: ByteStream) -> None:
        """Says how far the log has come whenever it has, and as a sign of life."""
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
                raise LinkClosed("it is not the master any more")
            if self._clock.monotonic_s() - self._heard_at_s > self._silence_s_max:
                raise LinkClosed(f"it has said nothing for {self._silence_s_max:g} s")

    def _report_now(self) -> bytes:
        end = self._store.stored_end
        return encode_report(end) if self.epoch is None else encode_epoch_report(self.epoch, end)

    def _say(self, text: str) -> None:
        """Not every second."""
        now_s = self._clock.monotonic_s()
        if text != self._said or now_s - self._said_at_s >= _REMINDER_S:
            log.warning("%s", text)
            self._said, self._said_at_s = text, now_s
