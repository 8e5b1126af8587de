"""The replication of one broker, in either role: its links, its replicas, its successor."""

import asyncio
import logging
from collections.abc import Callable
from math import inf
from typing import Final, final

import msgspec

from roquet.broker.replication.in_sync import AckRule, LagBound, is_near
from roquet.broker.replication.leadership import Lease, Succession, SuccessionWatch
from roquet.broker.replication.master import SlaveLinks
from roquet.broker.replication.other_brokers import OtherBrokers
from roquet.broker.replication.slave import MasterLink
from roquet.broker.replication.table_log import TableLog
from roquet.broker.replication.table_sync import SlaveTables, TableSync
from roquet.broker.settings.config import BrokerConfig
from roquet.clock import Clock
from roquet.store.message_store import MessageStore
from roquet.store.replica_log import Grown
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

_SHORTAGE: Final = "shortage"


class RestartAsSlave(msgspec.Struct, frozen=True):
    """How a broker has to restart: as a slave, and perhaps without the end of its log."""

    broker_id: int
    cut_end: int | None = None


@final
class Replication:
    """A master has slaves, or may have; a slave has a `master_link`, and its store only follows."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        store: MessageStore,
        *,
        slave_links: SlaveLinks,
        others: OtherBrokers,
        tables: SlaveTables,
        table_log: TableLog,
        on_grown: Callable[[Grown], None],
    ) -> None:
        # The current one: a promotion replaces it.
        self.config = config
        self._clock = clock
        self._store = store
        self.secret = slave_links.secret
        self.slave_links = slave_links
        self.others = others
        # Where epochs are not made by etcd: whether this master was succeeded by another one.
        self.succession = SuccessionWatch(clock, others, lambda: self.epoch)
        # With etcd: whether this broker may act on what it knows of elections.
        self.lease: Lease | None = None
        self.replicas = slave_links.replicas
        self._shortages = ThrottledLog(log, clock.monotonic_s)
        # Changes of topics and groups, where there are epochs.
        self.table_log = table_log
        # Of a slave, as the name servers or etcd had it last; None before they knew one.
        self.master_address: str | None = None
        self.master_ha_address: str | None = None
        self.master_link: MasterLink | None = None
        # Set when the tables are to be fetched before their next time.
        self.tables_wanted = asyncio.Event()
        self.following: list[asyncio.Task[None] | None] = []
        # Set when this broker cannot continue as it is; its supervisor obeys it.
        self.restart_request: asyncio.Future[RestartAsSlave] = (
            asyncio.get_running_loop().create_future()
        )
        self.table_sync = TableSync(
            others.peers,
            config.own_account,
            tables,
            lambda: self.master_address,
            self._is_followed,
            clock.monotonic_s,
        )
        if config.is_slave:
            self.master_link = MasterLink(
                config,
                clock,
                store,
                master_address=lambda: config.ha_master_address or self.master_ha_address,
                on_grown=on_grown,
                secret=self.secret,
                on_diverged=self._cut,
                # As calls to the master's other ports are.
                tls=others.peers.tls,
            )
            self.master_link.on_linked = self._linked

    @property
    def safe_end(self) -> int:
        """What lies before it in the log is on disk and, where they are waited for, at replicas.

        Of a slave it is what is stored: its master vouches for it.
        """
        if self.config.is_slave:
            return self._store.stored_end
        return min(self._store.synced_end, self.replicas.shown_end)

    @property
    def epoch(self) -> int:
        """Of the master that wrote last here; 0 without epochs."""
        return 0 if self.secret is None else self.secret.epochs.history.latest

    @property
    def refusal_reason(self) -> str | None:
        """Why this broker neither accepts messages nor replicates any; None if it does."""
        if self.master_link is not None:
            return self.master_link.problem
        rival = self.succession.rival
        if rival is None:
            return None
        return (
            f"two masters: {rival.address} is also a master of {self.config.broker_name} in epoch"
            f" {rival.epoch}. Compare both logs and demote the one that is to be the slave: roquet"
            " broker demote ADDRESS --force --id NUMBER"
        )

    @property
    def shortage(self) -> str | None:
        """Why every send is answered with SLAVE_NOT_AVAILABLE; None if it is not."""
        reason = None if self.master_link is not None else self.replicas.shortage()
        if reason is None:
            return None
        return (
            f"no send is safe, all are answered with SLAVE_NOT_AVAILABLE: {reason}"
            f" (replication.acknowledge is {self.ack_rule.policy.value}). Start its slaves again"
        )

    def log_shortage(self) -> None:
        """Called every second; logged every minute while it lasts."""
        shortage = self.shortage
        if shortage is None:
            self._shortages.clear(_SHORTAGE)
        else:
            self._shortages.add(_SHORTAGE, shortage, count=0)

    def step_down(self, succession: Succession) -> None:
        """Another broker is the master of a later epoch. Raises StateNotSaved."""
        assert self.secret is not None, "only a broker with epochs can be succeeded"
        if self.restart_request.done():
            return
        self.secret.epochs.be_succeeded(succession.by.epoch, slave_id=succession.free_id)
        log.warning(
            "%s is the master of %s in epoch %d, this broker was in epoch %d: stepping down to"
            " slave %d; what only this broker has is kept in divergent/",
            succession.by.address,
            self.config.broker_name,
            succession.by.epoch,
            self.epoch,
            succession.free_id,
        )
        self.request_restart(RestartAsSlave(succession.free_id))

    def request_restart(self, restart: RestartAsSlave) -> None:
        if not self.restart_request.done():
            self.restart_request.set_result(restart)

    def stop_following(self) -> None:
        """The log stops growing at once."""
        if self.master_link is not None:
            self.master_link.hold()
        for task in self.following:
            if task is not None:
                task.cancel()
        self.following = []
        self.master_link = None

    def lead(self, config: BrokerConfig) -> None:
        """As the master that `config` describes. Raises OSError when slaves cannot connect."""
        self.config = config
        self.replicas.require(config.replicas_needed - 1)
        self.slave_links.start(config)

    @property
    def ack_rule(self) -> AckRule:
        """What senders are promised, or would be if this slave were the master."""
        learned = None if self.secret is None else self.secret.epochs.ack_rule
        return self.config.own_ack_rule or learned or self.config.ack_rule

    def runtime_entries(self) -> dict[str, str]:
        """For operators, under keys of ours."""
        problems = (self.refusal_reason, self.replicas.duplicate, self.shortage)
        entries = {
            "brokerRole": self.config.role.value,
            "replicationEpoch": str(self.epoch),
            "replicationAcknowledge": self.ack_rule.policy.value,
            "replicationProblem": "; ".join(filter(None, problems)),
        }
        entries |= self._entries_of_switches()
        link = self.master_link
        if link is not None:
            return entries | {
                "followedMaster": link.master or "",
                "replicationLagBytes": str(link.lag_size),
                "replicationLagSeconds": f"{link.lag_s:.1f}",
            }
        return entries | self._entries_of_slaves()

    def _entries_of_switches(self) -> dict[str, str]:
        """What switches have displaced."""
        displaced = None if self.secret is None else self.secret.epochs.displaced
        entries = {}
        if displaced is not None:
            entries = {
                "displacedBy": displaced.by,
                "displacedByEpoch": str(displaced.epoch),
                "displacedEpoch": str(displaced.own_epoch),
                "displacedSince": str(displaced.since_ms),
            }
        divergent = self._store.divergent.count()
        if divergent.file_count:
            entries |= {
                "divergentFiles": str(divergent.file_count),
                "divergentMessages": str(divergent.message_count),
                "divergentNotResent": str(divergent.unsent_count),
                "divergentStore": str(self.config.store.layout.root),
            }
        return entries

    def _entries_of_slaves(self) -> dict[str, str]:
        log_end, now_s = self._store.log_end, self._clock.monotonic_s()
        slaves = self.replicas.slaves
        # Without a slave there is no lag, not even one of 0.
        lag_size = str(min(log_end - each.confirmed_end for each in slaves)) if slaves else "-"
        lag_s = f"{min(each.lag_s(log_end, now_s) for each in slaves):.1f}" if slaves else "-"
        return {
            "slaveCount": str(len(slaves)),
            "slaveLagBytes": lag_size,
            "replicationLagBytes": lag_size,
            "replicationLagSeconds": lag_s,
            "inSyncSet": ",".join(map(str, sorted(self.in_sync()))),
        }

    def in_sync(self) -> frozenset[int]:
        """The ids of brokers in sync: as etcd has it or, without it, as far as known here."""
        if self.replicas.members is not None:
            return frozenset(each.replica_id for each in self.replicas.members)
        bound = LagBound(self.config.ha_lag_size_max, inf)
        log_end, now_s = self._store.log_end, self._clock.monotonic_s()
        return frozenset(
            each.replica.replica_id
            for each in self.replicas.replica_states()
            if each.is_linked and is_near(each, log_end, now_s, bound)
        ) | {self.config.replica_id}

    def _is_followed(self, epoch: int) -> bool:
        """Whether the log here is that of a master of this epoch, as far as it goes."""
        link = self.master_link
        return link is not None and (self.secret is None or link.epoch == epoch)

    def _linked(self) -> None:
        """There is a new link, perhaps to another master: its tables are needed.

        Raises StateNotSaved.
        """
        link = self.master_link
        if link is not None and link.epoch is not None and self.secret is not None:
            by = self.master_address or self.master_ha_address or ""
            self.secret.epochs.note_followed(link.epoch, by, self._clock.now_ms())
        self.table_sync.link_made()
        self.tables_wanted.set()

    def _cut(self, end: int) -> None:
        self.request_restart(RestartAsSlave(self.config.broker_id, end))
