"""Everything that a broker has of replication, whichever role it plays."""

from collections.abc import Callable
from typing import final

from roquet.broker.replication.copies import Copies
from roquet.broker.replication.following import MasterLink
from roquet.broker.replication.sending import SlaveLinks
from roquet.broker.replication.tables import SlaveTables, TableCopy
from roquet.broker.settings.config import BrokerConfig
from roquet.clock import Clock
from roquet.net.peers import Peers
from roquet.net.service import Services
from roquet.store.log_copy import Grown
from roquet.store.message_store import MessageStore


@final
class Replication:
    """A master has slaves, or may have; a slave has a `master_link`, and its store only follows."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        store: MessageStore,
        *,
        copies: Copies,
        services: Services,
        peers: Peers,
        tables: SlaveTables,
        on_grown: Callable[[Grown], None],
    ) -> None:
        self._config = config
        self._store = store
        self.copies = copies
        self.slave_links = SlaveLinks(config, clock, store, copies, services)
        # Of a slave, as the name servers said last; None before they knew one.
        self.master_address: str | None = None
        self.master_ha_address: str | None = None
        self.master_link: MasterLink | None = None
        if config.is_slave:
            self.master_link = MasterLink(
                config,
                clock,
                store,
                master_address=lambda: config.ha_master_address or self.master_ha_address,
                on_grown=on_grown,
            )
        self.table_copy = TableCopy(peers, config.own_account, tables, lambda: self.master_address)

    def runtime_entries(self) -> dict[str, str]:
        """For operators, under keys of ours."""
        entries = {"brokerRole": self._config.role.value}
        if self.master_link is not None:
            return entries | {"followedMaster": self.master_link.master or ""}
        lags = [self._store.log_end - slave.confirmed_end for slave in self.copies.slaves]
        return entries | {"slaveCount": str(len(lags)), "slaveLagBytes": str(min(lags, default=0))}
