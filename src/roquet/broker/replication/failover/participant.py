"""One broker among those of its name: looks at etcd periodically, and acts on what it finds.

Two things go on at the same time: the lease is renewed, and etcd is looked at. A master whose lease
is not trusted acknowledges nothing, and one that has lost it steps down.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Final, final

import msgspec

from roquet.broker.broker import Broker
from roquet.broker.maintenance import promote
from roquet.broker.registration import identity_of
from roquet.broker.replication.epochs import LogPlace, SharedSecret
from roquet.broker.replication.failover.election import (
    Action,
    ElectionResult,
    Self,
    election_result,
    next_action,
)
from roquet.broker.replication.failover.etcd import Created, Delete, Etcd, EtcdError, Modified, Put
from roquet.broker.replication.failover.records import (
    AcknowledgedRecord,
    BadEntry,
    Candidacy,
    Keys,
    MasterRecord,
    MembersRecord,
    RecordsView,
    view_of,
)
from roquet.broker.replication.in_sync import LagBound, Replica, next_members, wanted_members
from roquet.broker.replication.leadership import Lease
from roquet.broker.replication.replication import Replication, RestartAsSlave
from roquet.broker.settings.config import BrokerConfig
from roquet.clock import Clock
from roquet.net.service import run_until_first_fails
from roquet.net.tls.contexts import ClientTls
from roquet.state_file import StateNotSaved
from roquet.store.errors import StoreUnavailable
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

# Parts of the lease: how often it is renewed and etcd looked at, how long an answer may take, and
# how long others are waited for, in an election that nothing was promised for.
_RENEWAL_PART: Final = 0.25
_LOOK_PART: Final = 0.125
_TIMEOUT_PART: Final = 0.25
_PATIENCE_PART: Final = 0.5
# For how many leases a broker that stepped down yields to others.
_ABSTENTION: Final = 2.0
# How often the acknowledged end of the log is recorded. Each time adds to etcd's history, so this
# is rare: a store that has lost less than it took in that time may go unnoticed.
_ACKNOWLEDGED_PERIOD_S: Final = 10.0
_LOST: Final = (
    "etcd has no record of this broker name, though it had one. This broker does not become master,"
    " because another broker may have a longer log. Restore etcd, or start the broker that has the"
    " longest log with --found; see docs/replication.md"
)


@final
class FailoverParticipant:
    """Belongs to the event loop. `broker` gives the one that serves now, if any does."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        broker: Callable[[], Broker | None],
        tls: ClientTls | None = None,
    ) -> None:
        """`tls` is for servers of etcd that encrypt."""
        self._config = config
        self._tls = tls
        self._clock = clock
        self._broker = broker
        self._keys = Keys(config.cluster_name, config.broker_name)
        self._lease = Lease(clock)
        self._lease_id: int | None = None
        # In which this broker is master; None if it is not.
        self._epoch: int | None = None
        self._vote_sent: Candidacy | None = None
        self._vacant_since_s: float | None = None
        self._abstains_until_s = 0.0
        # A change of the in-sync set got no reply: it may still happen.
        self._is_unsure = False
        # When the acknowledged end of the log was last recorded.
        self._acknowledged_at_s = 0.0
        self._is_to_found = config.is_to_found
        self._problems = ThrottledLog(log, clock.monotonic_s)

    async def run(self) -> None:
        """Never returns."""
        timeout_s = self._config.lease_s * _TIMEOUT_PART
        self._etcd = Etcd(self._config.etcd, timeout_s, self._tls)
        try:
            await run_until_first_fails(self._keep_alive(), self._keep_looking())
        finally:
            await self._leave()
            await self._etcd.close()

    async def _leave(self) -> None:
        """Other brokers need not wait for the lease to expire."""
        # First: from now on there may be a successor already.
        self._lease.end()
        lease_id, self._lease_id = self._lease_id, None
        try:
            if lease_id is not None:
                await self._etcd.revoke(lease_id)
        except EtcdError as error:
            log.info("the lease was not revoked and will expire: %s", error)

    # The lease.

    async def _keep_alive(self) -> None:
        while True:
            try:
                await self._renew()
            except EtcdError as error:
                self._warn(f"the lease is not renewed: {error}")
            await asyncio.sleep(self._config.lease_s * _RENEWAL_PART)

    async def _renew(self) -> None:
        asked_at_s = self._clock.monotonic_s()
        if self._lease_id is None:
            self._lease_id = await self._etcd.grant(self._config.lease_s)
            self._lease.renew(asked_at_s, self._config.lease_s)
            return
        ttl_s = await self._etcd.keep_alive(self._lease_id)
        if ttl_s > 0:
            self._lease.renew(asked_at_s, ttl_s)
            return
        log.warning("the lease at etcd has expired")
        self._lease.end()
        self._lease_id = None
        self._step_down("its lease has expired")

    # What etcd has.

    async def _keep_looking(self) -> None:
        while True:
            broker = self._broker()
            if broker is not None:
                broker.replication.lease = self._lease
            if broker is not None and self._lease_id is not None:
                try:
                    await self._look(broker, self._lease_id)
                except (EtcdError, BadEntry) as error:
                    self._warn(str(error))
            self._problems.flush()
            await asyncio.sleep(self._config.lease_s * _LOOK_PART)

    async def _look(self, broker: Broker, lease_id: int) -> None:
        """Raises EtcdError and BadEntry."""
        if broker.config.is_slave and self._epoch is not None:
            # It restarted, because of an operator or its own disk.
            self._resign()
        found = await self._etcd.find(self._keys.prefix)
        view = view_of(self._keys, found.revision, found.entries)
        if self._broker() is not broker:
            return
        epochs = _secret(broker.replication).epochs
        if view.members is not None:
            epochs.note_electorate()
        me = Self(
            self._config.replica_id,
            identity_of(broker.config).address,
            is_first=not self._config.is_slave,
            was_known=epochs.has_electorate,
            is_to_found=self._is_to_found,
        )
        match next_action(view, me, self._epoch):
            case Action.FOUND:
                await self._found(broker, view, lease_id)
            case Action.WAIT:
                self._warn(
                    "etcd has no master of this broker name: start the one that is to be the first"
                )
            case Action.LOST:
                self._warn(_LOST)
            case Action.RUN:
                await self._vote(broker, view, lease_id)
            case Action.FOLLOW:
                self._follow(broker, view)
            case Action.LEAD:
                await self._review_in_sync_set(broker, view)
            case Action.STEP_DOWN:
                self._step_down(
                    f"epoch {view.epoch} has started"
                    if view.master
                    else "its record in etcd is gone"
                )
            case Action.DOUBTED:
                self._warn(f"another broker has the same brokerId={me.replica_id}: {view.master}")
            case Action.CLEAR:
                made_then = Created(self._keys.master, view.master_revision)
                await self._etcd.change([made_then], [Delete(self._keys.master)])

    def _follow(self, broker: Broker, view: RecordsView) -> None:
        assert view.master is not None
        self._vacant_since_s = self._vote_sent = None
        replication = broker.replication
        _secret(broker.replication).epochs.see(view.epoch)
        replication.master_address = view.master.address
        replication.master_ha_address = view.master.ha_address
        link = replication.master_link
        if link is None:
            return
        link.acknowledged = view.acknowledged
        if link.master is not None and link.master != view.master.ha_address:
            # The previous master may not know that it was replaced. The next look resumes.
            link.hold()
        else:
            link.resume()

    # Elections.

    async def _found(self, broker: Broker, view: RecordsView, lease_id: int) -> None:
        """Become the first master, unless another broker of this name has a longer log."""
        own = LogPlace(broker.replication.epoch, broker.store.log_end)
        for other in await broker.replication.others.all():
            if LogPlace(other.epoch, other.log_end) > own and other.epoch > 0:
                self._warn(
                    f"--found is refused: {other.address} has a log of epoch {other.epoch} up to"
                    f" {other.log_end}, this broker one of epoch {own.epoch} up to {own.end}; start"
                    " that one with --found"
                )
                # Nor later, when that one may not answer: it still has the longer log.
                self._is_to_found = False
                return
        await self._stand(broker, view, lease_id, frozenset({self._replica(broker)}))
        if self._epoch is not None and self._is_to_found:
            self._is_to_found = False  # Only once: from now on there are elections.
            _secret(broker.replication).epochs.note_founded(is_founded=True)

    async def _vote(self, broker: Broker, view: RecordsView, lease_id: int) -> None:
        """There is no master, so the log must not grow."""
        link, members = broker.replication.master_link, view.members
        assert members is not None
        if link is not None:
            link.hold()
        now_s = self._clock.monotonic_s()
        if self._vacant_since_s is None:
            self._vacant_since_s = now_s
            log.warning("there is no master of %s: electing one", self._config.broker_name)
        me = self._candidacy(broker, view)
        if self._vote_sent != me:
            key = self._keys.candidate(me.replica_id)
            await self._etcd.change([], [Put(key, msgspec.json.encode(me), lease_id)])
            self._vote_sent = me
        replicas_needed = _replicas_promised(view, broker.replication)
        patience_s = self._config.lease_s * _PATIENCE_PART
        result = election_result(
            me,
            view.candidates,
            members,
            replicas_needed=replicas_needed,
            is_patient=replicas_needed == 1 and now_s - self._vacant_since_s < patience_s,
            acknowledged=view.acknowledged,
        )
        if result is ElectionResult.STAND and not me.abstains:
            await self._stand(broker, view, lease_id, members)
        elif result is ElectionResult.OUTSIDE:
            self._warn(_outside(me.replica, members))
        elif result is ElectionResult.BEHIND:
            epoch, end = view.acknowledged
            self._warn(
                f"no master: the longest log ends at {me.end} in epoch {me.epoch}, although {end}"
                f" of epoch {epoch} was acknowledged. Start a broker that has it; see"
                " docs/replication.md"
            )

    def _replica(self, broker: Broker) -> Replica:
        return Replica(self._config.replica_id, _secret(broker.replication).epochs.author)

    def _candidacy(self, broker: Broker, view: RecordsView) -> Candidacy:
        place, (replica_id, store) = _place(broker), self._replica(broker)
        abstains = self._clock.monotonic_s() < self._abstains_until_s
        return Candidacy(replica_id, view.members_revision, place.epoch, place.end, abstains, store)

    async def _stand(
        self, broker: Broker, view: RecordsView, lease_id: int, members: frozenset[Replica]
    ) -> None:
        """Becomes master, unless another broker does or the in-sync set changes meanwhile."""
        identity, place = identity_of(broker.config), _place(broker)
        me = MasterRecord(self._config.replica_id, identity.address, identity.ha_address)
        base = view.base_above(_secret(broker.replication).epochs.seen)
        replicas_needed = broker.replication.ack_rule.replicas_needed
        revision = await self._etcd.change(
            [
                Created(self._keys.master, 0),
                Modified(self._keys.members, view.members_revision),
            ],
            [
                Put(self._keys.master, msgspec.json.encode(me), lease_id),
                self._put_members(members, base, replicas_needed),
                # All of its log may have been acknowledged, by this broker or another.
                self._put_acknowledged(place),
            ],
        )
        if revision is not None and self._broker() is broker:
            self._become_master(broker, base + revision, members)

    def _become_master(self, broker: Broker, epoch: int, members: frozenset[Replica]) -> None:
        self._epoch = epoch
        self._is_unsure = False
        self._vacant_since_s = self._vote_sent = None
        broker.replication.replicas.lead(members, partial(self._may_acknowledge, epoch))
        try:
            promote(broker, epoch)
        except (StateNotSaved, StoreUnavailable, OSError) as error:
            log.error("cannot become master of epoch %d: %s", epoch, error)  # noqa: TRY400
            self._step_down("it cannot be the master")

    def _may_acknowledge(self, epoch: int) -> bool:
        return self._epoch == epoch and self._lease.is_trusted

    def _step_down(self, reason: str) -> None:
        if self._epoch is None:
            return
        log.warning("stepping down as master of epoch %d: %s", self._epoch, reason)
        self._resign()
        broker = self._broker()
        if broker is not None:
            broker.replication.request_restart(RestartAsSlave(self._config.replica_id))

    def _resign(self) -> None:
        self._epoch = None
        self._abstains_until_s = self._clock.monotonic_s() + self._config.lease_s * _ABSTENTION

    # The in-sync set.

    async def _review_in_sync_set(self, broker: Broker, view: RecordsView) -> None:
        members, replicas = view.members, broker.replication.replicas
        assert members is not None
        log_end = broker.store.log_end
        states = replicas.replica_states()
        me = self._replica(broker)
        wanted = wanted_members(
            me,
            members,
            states,
            log_end=log_end,
            now_s=self._clock.monotonic_s(),
            bound=LagBound(self._config.ha_lag_size_max, self._config.lag_s_max),
        )
        proposed = next_members(
            members,
            wanted,
            ends={each.replica: each.confirmed_end for each in states} | {me: log_end},
            acknowledged_end=replicas.acknowledged_end,
            replicas_needed=broker.config.replicas_needed,
        )
        if proposed != members or self._is_unsure:
            await self._change_members(broker, view, members, proposed)
        else:
            await self._record_acknowledged(broker, view)

    async def _change_members(
        self,
        broker: Broker,
        view: RecordsView,
        members: frozenset[Replica],
        proposed: frozenset[Replica],
    ) -> None:
        replicas = broker.replication.replicas
        # Whatever becomes of the change, only members of both sets count until that is known.
        replicas.use_members((replicas.members or members) & members & proposed)
        self._is_unsure = True
        revision = await self._etcd.change(
            [
                Created(self._keys.master, view.master_revision),
                Modified(self._keys.members, view.members_revision),
            ],
            [self._put_members(proposed, view.epoch_base, broker.config.replicas_needed)],
        )
        if revision is not None and self._epoch == view.epoch:
            self._is_unsure = False
            replicas.use_members(proposed)
            log.info("in-sync set: %s", _numbers(proposed))

    async def _record_acknowledged(self, broker: Broker, view: RecordsView) -> None:
        now_s = self._clock.monotonic_s()
        if now_s - self._acknowledged_at_s < _ACKNOWLEDGED_PERIOD_S:
            return
        self._acknowledged_at_s = now_s
        place = _place(broker, broker.replication.replicas.acknowledged_end)
        # With one replica nothing is promised that an election could lack.
        if broker.config.replicas_needed == 1 or place == view.acknowledged:
            return
        await self._etcd.change(
            [Created(self._keys.master, view.master_revision)], [self._put_acknowledged(place)]
        )

    def _put_members(
        self, members: frozenset[Replica], epoch_base: int, replicas_needed: int
    ) -> Put:
        record = MembersRecord.of(members, epoch_base, replicas_needed)
        return Put(self._keys.members, msgspec.json.encode(record))

    def _put_acknowledged(self, place: LogPlace) -> Put:
        record = AcknowledgedRecord(place.epoch, place.end)
        return Put(self._keys.acknowledged, msgspec.json.encode(record))

    def _warn(self, text: str) -> None:
        """Repeated texts are throttled."""
        self._problems.warning(text, text)


def _secret(replication: Replication) -> SharedSecret:
    secret = replication.secret
    assert secret is not None, "without a secret there is no election"
    return secret


def _place(broker: Broker, end: int | None = None) -> LogPlace:
    end = broker.store.log_end if end is None else end
    return LogPlace(_secret(broker.replication).epochs.history.at(end).number, end)


def _replicas_promised(view: RecordsView, replication: Replication) -> int:
    """By the last master; older brokers did not record it."""
    own = replication.ack_rule.replicas_needed
    return own if view.replicas_needed is None else view.replicas_needed


def _numbers(members: frozenset[Replica]) -> str:
    """With the store, where a number has two: one of them is lost, and still counts."""
    counts = Counter(each.replica_id for each in members)
    return ", ".join(
        f"{number} (store {store})" if counts[number] > 1 else str(number)
        for number, store in sorted(members)
    )


def _outside(me: Replica, members: frozenset[Replica]) -> str:
    if any(each.replica_id == me.replica_id for each in members):
        return (
            f"no master: the store of this broker is not the one that was in sync under brokerId"
            f" {me.replica_id}; waiting for a master to replicate from"
        )
    return f"no master: this broker was not in sync with the last one: {_numbers(members)}"
