"""A master's side of replication: a port, and a link for each slave that has connected to it."""

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import Final, final

from roquet.broker.replication.copies import Copies
from roquet.broker.replication.errors import DuplicateReplica, LinkError, reason_of
from roquet.broker.replication.slave_link import SlaveLink
from roquet.broker.replication.trust import Trust
from roquet.broker.settings.config import BrokerConfig
from roquet.clock import Clock
from roquet.net.complaints import Complaints
from roquet.net.errors import AddressTaken, TlsNotUsable, TlsRefused
from roquet.net.service import OnFailure, Services
from roquet.net.tls.contexts import ServerTls
from roquet.protocol.host import Address
from roquet.store.message_store import MessageStore

log = logging.getLogger(__name__)

# Nobody has to prove that it is a slave, so strangers must not take all descriptors.
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
        copies: Copies,
        services: Services,
        *,
        trust: Trust | None = None,
        tls: ServerTls | None = None,
    ) -> None:
        """Without `trust`, slaves are those of Apache's protocol; without `tls`, plain ones."""
        # Whether a slave may come from an address; assembly says it, where there is a guard.
        self.may_follow: Callable[[str], bool] = lambda _ip: True
        self._complaints = Complaints()
        self._config = config
        self._clock = clock
        self._store = store
        self.copies = copies
        self._services = services
        self.trust: Final = trust
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
            "take slaves", self._accept, on_failure=OnFailure.RESTART
        )

    def stop(self) -> None:
        """Takes no more slaves."""
        if self._listener is not None and self._accepting is not None:
            self._accepting.cancel()
            # Not before the loop has stopped looking at it.
            asyncio.get_running_loop().call_soon(self._listener.close)

    def wake(self) -> None:
        """Somebody waits for what was stored last."""
        for link in self._links:
            link.wake()

    async def _accept(self) -> None:
        assert self._listener is not None
        loop = asyncio.get_running_loop()
        while True:
            sock, peer = await loop.sock_accept(self._listener)
            address = str(Address(peer[0], peer[1]))
            if not self.may_follow(peer[0]):
                self._refuse("address", address, "no account trusts its address")
                sock.close()
                continue
            if len(self._links) >= LINK_COUNT_MAX:
                log.warning("refusing slave %s: there are %d already", address, LINK_COUNT_MAX)
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
                self.copies,
                trust=self.trust,
                tls=self._tls,
            )
            self._links.add(link)
            self._services.once(f"slave {address}", partial(self._serve, link))

    async def _serve(self, link: SlaveLink) -> None:
        try:
            await link.serve()
        except (TlsRefused, TlsNotUsable) as error:
            self._refuse("encryption", link.address, str(error))
        except DuplicateReplica as error:
            self._refuse("brokerId", link.address, str(error))
        except (LinkError, OSError) as error:
            log.warning("slave %s is gone: %s", link.address, reason_of(error))
        finally:
            self._links.discard(link)
            link.close()

    def _refuse(self, kind: str, address: str, reason: str) -> None:
        """Not every second: whoever is refused comes again."""
        now_s = self._clock.monotonic_s()
        self._complaints.say(kind, f"refusing slave {address}: {reason}", now_s)
        self._complaints.sum_up(now_s)
