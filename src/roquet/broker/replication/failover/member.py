"""One broker among those of its name: looks at etcd again and again, and does what follows.

Two things go on at the same time: the lease is renewed, and etcd is looked at. A master whose lease
is not trusted acknowledges nothing, and one that has lost it steps down.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, final

import msgspec

from roquet.broker.broker import Broker
from roquet.broker.promotion import promote
from roquet.broker.registration import identity_of
from roquet.broker.replication.both_ways import both_ways
from roquet.broker.replication.failover.election import Candidacy, ElectionVerdict, verdict
from roquet.broker.replication.failover.etcd import Created, Delete, Etcd, EtcdError, Modified, Put
from roquet.broker.replication.failover.records import (
    BadEntry,
    Keys,
    MasterRecord,
    MembersRecord,
    RecordsView,
    view_of,
)
from roquet.broker.replication.failover.steps import Me, Step, next_step
from roquet.broker.replication.in_sync import LagBound, next_members, wanted_members
from roquet.broker.replication.lease import Lease
from roquet.broker.replication.replication import Rebirth
from roquet.broker.settings.config import BrokerConfig
from roquet.clock import Clock
from roquet.net.tls.contexts import CallingTls
from roquet.state_file import StateNotSaved
from roquet.store.errors import StoreUnavailable

log = logging.getLogger(__name__)

# Parts of the lease: how often it is renewed and etcd looked at, how long an answer may take, and
# how long others are waited for, in an election that nothing was promised for.
_RENEWAL_PART: Final = 0.25
_LOOK_PART: Final = 0.125
_TIMEOUT_PART: Final = 0.25
_PATIENCE_PART: Final = 0.5
# For how many leases a broker that stepped down leaves the office to others.
_ABSTENTION: Final = 2.0


@final
class FailoverMember:
    """Belongs to the event loop. `broker` gives the one that serves now, if any does."""

    def __init__(
        self,
        config: BrokerConfig,
        clock: Clock,
        broker: Callable[[], Broker | None],
        tls: CallingTls | None = None,
    ) -> None:
        """`tls` is for servers of etcd that encrypt."""
        self._config = config
        self._tls = tls
        self._clock = clock
        self._broker = broker
        self._keys = Keys(config.cluster_name, config.broker_name)
        self._lease = Lease(clock)
        self._lease_id: int | None = None
        # Of the office that this broker holds.
        self._epoch: int | None = None
        self._spoken: Candidacy | None = None
        self._vacant_since_s: float | None = None
        self._abstains_until_s = 0.0
        # A change of the members was not answered: it may still happen.
        self._is_unsure = False
        self._said = ""

    async def run(self) -> None:
        """Never returns."""
        timeout_s = self._config.lease_s * _TIMEOUT_PART
        self._etcd = Etcd(self._config.etcd, timeout_s, self._tls)
        try:
            await both_ways(self._keep_alive(), self._keep_looking())
        finally:
            await self._leave()
            await self._etcd.close()

    async def _leave(self) -> None:
        """Others need not wait for the lease to end."""
        # First: whatever is sent from now on, a successor may be there already.
        self._lease.end()
        lease_id, self._lease_id = self._lease_id, None
        try:
            if lease_id is not None:
                await self._etcd.revoke(lease_id)
        except EtcdError as error:
            log.info("the lease will end by itself: %s", error)

    # The lease.

    async def _keep_alive(self) -> None:
        while True:
            try:
                await self._renew()
            except EtcdError as error:
                self._say(f"the lease is not renewed: {error}")
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
        log.warning("the lease at etcd has ended")
        self._lease.end()
        self._lease_id = None
        self._step_down("its lease has ended")

    # What etcd says.

    async def _keep_looking(self) -> None:
        while True:
            broker = self._broker()
            if broker is not None and self._lease_id is not None:
                try:
                    await self._look(broker, self._lease_id)
                    self._said = ""
                except (EtcdError, BadEntry) as error:
                    self._say(str(error))
            await asyncio.sleep(self._config.lease_s * _LOOK_PART)

    async def _look(self, broker: Broker, lease_id: int) -> None:
        """Raises EtcdError and BadEntry."""
        if broker.config.is_slave and self._epoch is not None:
            # It began again, as an operator or its own disk wanted it.
            self._resign()
        found = await self._etcd.find(self._keys.prefix)
        view = view_of(self._keys, found.revision, found.entries)
        if self._broker() is not broker:
            return
        me = Me(
            self._config.replica_id,
            identity_of(broker.config).address,
            is_first=not self._config.is_slave,
        )
        match next_step(view, me, self._epoch):
            case Step.FOUND:
                await self._stand(broker, view, lease_id, frozenset({self._config.replica_id}))
            case Step.WAIT:
                self._say("etcd knows no master of this name: start the one that is to be first")
            case Step.RUN:
                await self._run_for_office(broker, view, lease_id)
            case Step.FOLLOW:
                self._follow(broker, view)
            case Step.LEAD:
                await self._see_who_is_in_sync(broker, view)
            case Step.STEP_DOWN:
                self._step_down(f"epoch {view.epoch} has begun" if view.master else "it is vacant")
            case Step.DOUBTED:
                self._say(f"another broker has brokerId={me.replica_id}, too: {view.master}")
            case Step.CLEAR:
                made_then = Created(self._keys.master, view.master_revision)
                await self._etcd.change([made_then], [Delete(self._keys.master)])

    def _follow(self, broker: Broker, view: RecordsView) -> None:
        assert view.master is not None
        self._vacant_since_s = self._spoken = None
        replication = broker.replication
        if replication.trust is not None:
            replication.trust.epochs.see(view.epoch)
        replication.master_address = view.master.address
        replication.master_ha_address = view.master.ha_address
        link = replication.master_link
        if link is None:
            return
        if link.master is not None and link.master != view.master.ha_address:
            # The master before that may not know that it is over. The next look goes on.
            link.hold()
        else:
            link.go_on()

    # Elections.

    async def _run_for_office(self, broker: Broker, view: RecordsView, lease_id: int) -> None:
        """There is no master, so nobody may add to the log."""
        link, members = broker.replication.master_link, view.members
        assert members is not None
        if link is not None:
            link.hold()
        now_s = self._clock.monotonic_s()
        if self._vacant_since_s is None:
            self._vacant_since_s = now_s
            log.warning("there is no master of %s", self._config.broker_name)
        me = self._candidacy(broker, view)
        if self._spoken != me:
            key = self._keys.candidate(me.replica_id)
            await self._etcd.change([], [Put(key, msgspec.json.encode(me), lease_id)])
            self._spoken = me
        copies = self._config.copies_needed
        patience_s = self._config.lease_s * _PATIENCE_PART
        judged = verdict(
            me,
            view.candidates,
            members,
            copies=copies,
            is_patient=copies == 1 and now_s - self._vacant_since_s < patience_s,
        )
        if judged is ElectionVerdict.STAND and not me.abstains:
            await self._stand(broker, view, lease_id, members)
        elif judged is ElectionVerdict.OUTSIDE:
            self._say(f"no master, and this broker was not in sync with the last: {set(members)}")

    def _candidacy(self, broker: Broker, view: RecordsView) -> Candidacy:
        trust, end = broker.replication.trust, broker.store.log_end
        assert trust is not None
        epoch = trust.epochs.history.at(end).number
        abstains = self._clock.monotonic_s() < self._abstains_until_s
        return Candidacy(self._config.replica_id, view.members_revision, epoch, end, abstains)

    async def _stand(
        self, broker: Broker, view: RecordsView, lease_id: int, members: frozenset[int]
    ) -> None:
        """Take the office, unless somebody else does or the members change meanwhile."""
        trust, identity = broker.replication.trust, identity_of(broker.config)
        assert trust is not None
        me = MasterRecord(self._config.replica_id, identity.address, identity.ha_address)
        base = view.base_above(trust.epochs.seen)
        revision = await self._etcd.change(
            [
                Created(self._keys.master, 0),
                Modified(self._keys.members, view.members_revision),
            ],
            [
                Put(self._keys.master, msgspec.json.encode(me), lease_id),
                self._put_members(members, base),
            ],
        )
        if revision is not None and self._broker() is broker:
            self._take_office(broker, base + revision, members)

    def _take_office(self, broker: Broker, epoch: int, members: frozenset[int]) -> None:
        self._epoch = epoch
        self._is_unsure = False
        self._vacant_since_s = self._spoken = None
        broker.replication.copies.lead(members, partial(self._may_acknowledge, epoch))
        try:
            promote(broker, epoch)
        except (StateNotSaved, StoreUnavailable, OSError) as error:
            log.error("epoch %d is not taken: %s", epoch, error)  # noqa: TRY400  It says it all.
            self._step_down("it cannot hold it")

    def _may_acknowledge(self, epoch: int) -> bool:
        return self._epoch == epoch and self._lease.is_trusted

    def _step_down(self, reason: str) -> None:
        if self._epoch is None:
            return
        log.warning("steps down from epoch %d: %s", self._epoch, reason)
        self._resign()
        broker = self._broker()
        if broker is not None:
            broker.replication.begin_again(Rebirth(self._config.replica_id))

    def _resign(self) -> None:
        self._epoch = None
        self._abstains_until_s = self._clock.monotonic_s() + self._config.lease_s * _ABSTENTION

    # Who is in sync.

    async def _see_who_is_in_sync(self, broker: Broker, view: RecordsView) -> None:
        members, copies = view.members, broker.replication.copies
        assert members is not None
        log_end = broker.store.log_end
        followers = copies.followers()
        me = self._config.replica_id
        wanted = wanted_members(
            me,
            members,
            followers,
            log_end=log_end,
            now_s=self._clock.monotonic_s(),
            bound=LagBound(self._config.ha_lag_size_max, self._config.lag_s_max),
        )
        proposed = next_members(
            members,
            wanted,
            ends={each.replica_id: each.confirmed_end for each in followers} | {me: log_end},
            acknowledged_end=copies.acknowledged_end,
            copies=self._config.copies_needed,
        )
        if proposed == members and not self._is_unsure:
            return
        # Whatever becomes of the change, only who is in both sets counts until that is known.
        copies.use_members((copies.members or members) & members & proposed)
        self._is_unsure = True
        revision = await self._etcd.change(
            [
                Created(self._keys.master, view.master_revision),
                Modified(self._keys.members, view.members_revision),
            ],
            [self._put_members(proposed, view.epoch_base)],
        )
        if revision is not None and self._epoch == view.epoch:
            self._is_unsure = False
            copies.use_members(proposed)
            log.info("in sync are %s", ", ".join(map(str, sorted(proposed))))

    def _put_members(self, members: frozenset[int], epoch_base: int) -> Put:
        record = MembersRecord(tuple(sorted(members)), epoch_base)
        return Put(self._keys.members, msgspec.json.encode(record))

    def _say(self, text: str) -> None:
        """Not again and again."""
        if text != self._said:
            log.warning("%s", text)
            self._said = text
