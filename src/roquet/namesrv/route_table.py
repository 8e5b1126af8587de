"""Brokers and topics as the brokers report them. Pure state: no sockets, no logging.

    topic -> broker name -> queues
    broker name -> broker id -> address          id 0 is the master
    (cluster, address) -> last heartbeat         what is not refreshed is removed

A broker is known by its address. When the last address of a broker name is gone, the name
disappears from its cluster and from all topics; a surviving slave keeps topics readable.

Where masters have epochs, the latest master of a name is remembered for a day after it was lost:
one that it has succeeded must not take its place just because it registers first. A master that
unregisters is shut down in order, and not remembered.

Where they have none, two brokers can register under one name and id by mistake. Routes have the one
that registered last. When it leaves, the other one is back at once, with the topics that it had.
"""

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, Protocol, TypeVar, final

import msgspec

from roquet.clock import Clock
from roquet.namesrv.errors import RegistrationRefused
from roquet.net.errors import TableFull
from roquet.protocol.bodies.body import DataVersion
from roquet.protocol.bodies.name_server import (
    BrokerData,
    BrokerMemberGroup,
    BrokerRegistration,
    ClusterInfo,
    QueueData,
    TopicRoute,
)
from roquet.protocol.bodies.topics import QueueMapping, TopicConfig
from roquet.protocol.codes import Permission
from roquet.protocol.command import Command

V = TypeVar("V")

# Topics times the broker names that have them; an entry takes some hundred bytes.
ROUTE_COUNT_MAX: Final = 500_000
# Limits of a registration besides its topics.
NAME_SIZE_MAX: Final = 255
FILTER_SERVER_COUNT_MAX: Final = 100
BROKER_COUNT_MAX: Final = 10_000

MASTER_ID: Final = 0
SILENCE_MAX_S: Final = 120.0
LOST_MASTER_MAX_S: Final = 86_400.0

_UNIT: Final = 1  # bits of `topicSysFlag`
_UNIT_SUBSCRIPTION: Final = 2
_READ_AND_WRITE: Final = Permission.READ | Permission.WRITE


class BrokerKey(NamedTuple):
    cluster: str
    address: str


class BrokerIdentity(NamedTuple):
    """The identity that a broker sends in every request."""

    cluster: str
    name: str
    broker_id: int
    address: str

    @property
    def key(self) -> BrokerKey:
        return BrokerKey(self.cluster, self.address)


class BrokerTraits(msgspec.Struct, frozen=True, kw_only=True):
    """Properties of a broker besides its topics."""

    ha_address: str
    silence_max_s: float = SILENCE_MAX_S
    zone: str | None = None
    # Only 5.x brokers send whether a slave may act for a lost master; None means 4.x.
    has_acting_master: bool | None = None
    # Whether it registers again when it is notified that another broker has its name and id.
    heeds_notices: bool = False


class Channel(Protocol):
    """The connection a broker registers on."""

    def close(self, reason: str) -> None: ...

    def send_oneway(self, command: Command) -> None: ...


class LiveBroker(msgspec.Struct):
    identity: BrokerIdentity
    traits: BrokerTraits
    data_version: DataVersion
    filter_servers: list[str]
    channel: Channel
    refreshed_s: float
    # Kept while another broker has the same name and id, to restore the routes of this one.
    own_topics: dict[str, QueueData] | None = None


class LatestMaster(msgspec.Struct, frozen=True):
    """The master of the latest epoch of a broker name, whether or not it is registered."""

    address: str
    epoch: int
    known_at_s: float


@final
class RouteTable:
    def __init__(self, clock: Clock, route_count_max: int = ROUTE_COUNT_MAX) -> None:
        self._clock = clock
        self._route_count_max = route_count_max
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._mappings: dict[str, dict[str, QueueMapping]] = {}
        self._groups: dict[str, BrokerData] = {}
        self._live: dict[BrokerKey, LiveBroker] = {}
        self._latest_masters: dict[tuple[str, str], LatestMaster] = {}
        # By cluster, name and id: the slave that was refused last because another one has them.
        self._refused: dict[tuple[str, str, int], tuple[str, float]] = {}

    # Called for brokers.

    def register(
        self,
        identity: BrokerIdentity,
        traits: BrokerTraits,
        registration: BrokerRegistration,
        channel: Channel,
    ) -> bool:
        """Whether the broker was not known before. Raises RegistrationRefused and TableFull."""
        known = self._live.get(identity.key)
        epoch = registration.topics.data_version.state_version
        self._check(identity, registration)
        self._check_room(identity, registration)
        if known is not None and known.identity.name != identity.name:
            self._forget(known)  # It was restarted under another name.
        twin = self._twin_of(identity, epoch)
        if twin is not None and twin.own_topics is None:
            twin.own_topics = self._topics_of(identity.name)
        group = self._joined_group(identity, traits)
        if _speaks_for_the_group(identity, traits, group):
            has_changed = (
                known is None
                or known.identity != identity  # It may have become the master.
                or twin is not None  # The routes may be those of the other one.
                or known.data_version != registration.topics.data_version
            )
            self._take_topics(identity.name, registration, group, has_changed=has_changed)
        self._note_master(identity, epoch)
        if self._refused.get(identity[:3], ("", 0))[0] == identity.address:
            del self._refused[identity[:3]]
        self._live[identity.key] = LiveBroker(
            identity,
            traits,
            registration.topics.data_version,
            registration.filter_server_list,
            channel,
            self._clock.monotonic_s(),
            None if twin is None else self._routes_of(identity.name, registration),
        )
        return known is None

    def duplicate_of(self, identity: BrokerIdentity) -> str | None:
        """The address of another living broker with the same name, id and epoch.

        Or of a slave with the same name and id that was refused lately.
        """
        own = self._live.get(identity.key)
        refused = self._refused.get(identity[:3])
        if refused is not None and refused[0] != identity.address:
            return refused[0]
        epoch = 0 if own is None else own.data_version.state_version
        twin = None if own is None else self._twin_of(identity, epoch)
        return None if twin is None else twin.identity.address

    def twins_of(self, identity: BrokerIdentity) -> list[LiveBroker]:
        """Living brokers with the same name and id at other addresses, of any epoch."""
        return [
            live
            for live in self._live.values()
            if live.identity.key != identity.key and live.identity[:3] == identity[:3]
        ]

    def latest_master(self, identity: BrokerIdentity) -> LatestMaster | None:
        """Of the name of a broker, where masters have epochs; it may be lost."""
        return self._latest_masters.get(identity[:2])

    def master_of(self, identity: BrokerIdentity) -> LiveBroker | None:
        """The living master of a slave."""
        group = self._groups.get(identity.name)
        address = group.broker_addrs.get(MASTER_ID) if group else None
        if address is None or identity.broker_id == MASTER_ID:
            return None
        return self._live.get(BrokerKey(identity.cluster, address))

    def refresh(self, key: BrokerKey) -> None:
        """A heartbeat; unknown brokers must register first."""
        live = self._live.get(key)
        if live is not None:
            live.refreshed_s = self._clock.monotonic_s()

    def data_version(self, key: BrokerKey) -> DataVersion | None:
        live = self._live.get(key)
        return live.data_version if live else None

    def register_topic(self, topic: str, queues: Iterable[QueueData]) -> None:
        """Adds queues of known broker names to a topic, apart from their registrations.

        Raises RegistrationRefused and TableFull.
        """
        if len(topic) > NAME_SIZE_MAX:
            raise RegistrationRefused(
                f"a topic of more than {NAME_SIZE_MAX} characters", limit=NAME_SIZE_MAX
            )
        known = {each.broker_name: each for each in queues if each.broker_name in self._groups}
        self._check_new_routes(len(known.keys() - self._topics.get(topic, {}).keys()))
        if known:
            self._topics.setdefault(topic, {}).update(known)

    # Removal of brokers.

    def unregister(self, identity: BrokerIdentity) -> bool:
        """Whether it was registered. One that returned under another address is kept."""
        live = self._live.get(identity.key)
        if live is not None:
            self._forget(live)
        latest = self.latest_master(identity)
        if latest is not None and latest.address == identity.address:
            del self._latest_masters[identity[:2]]
        return live is not None

    def lose_channel(self, channel: Channel) -> list[LiveBroker]:
        """Removes and returns the brokers that registered there."""
        return self._forget_where(lambda live: live.channel is channel)

    def expire(self) -> list[LiveBroker]:
        """Removes and returns the brokers without a recent heartbeat."""
        now_s = self._clock.monotonic_s()
        for place, (_, refused_at_s) in list(self._refused.items()):
            if now_s - refused_at_s > SILENCE_MAX_S:
                del self._refused[place]
        for name, latest in list(self._latest_masters.items()):
            if now_s - latest.known_at_s > LOST_MASTER_MAX_S:
                del self._latest_masters[name]
        return self._forget_where(lambda live: now_s - live.refreshed_s > live.traits.silence_max_s)

    # Called for clients and tools.

    def route(self, topic: str) -> TopicRoute | None:
        """None unless there are queues and a broker that has them."""
        queues = self._topics.get(topic, {})
        groups = [self._groups[name] for name in queues if name in self._groups]
        if not groups:
            return None
        return TopicRoute(
            broker_datas=groups,
            filter_server_table=self._filter_servers(groups),
            queue_datas=list(queues.values()),
            topic_queue_mapping_by_broker=self._mappings.get(topic, {}),
        )

    def cluster_info(self) -> ClusterInfo:
        return ClusterInfo(broker_addr_table=self._groups, cluster_addr_table=self._clusters())

    def member_group(self, cluster: str, name: str) -> BrokerMemberGroup:
        group = self._groups.get(name)
        addresses = group.broker_addrs if group else {}
        return BrokerMemberGroup(broker_addrs=addresses, broker_name=name, cluster=cluster)

    def topics(self) -> list[str]:
        return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        names = self._clusters().get(cluster, [])
        return [
            topic for topic, queues in self._topics.items() if not queues.keys().isdisjoint(names)
        ]

    def system_topics(self) -> list[str]:
        """Every cluster and every broker name has a topic of its own."""
        return [*self._clusters(), *self._groups]

    def any_address(self) -> str | None:
        return next((key.address for key in self._live), None)

    def unit_topics(self) -> list[str]:
        return self._topics_by_flags(lambda flags: flags & _UNIT != 0)

    def unit_subscription_topics(self) -> list[str]:
        return self._topics_by_flags(lambda flags: flags & _UNIT_SUBSCRIPTION != 0)

    def unit_subscription_topics_outside_units(self) -> list[str]:
        return self._topics_by_flags(
            lambda flags: flags & (_UNIT | _UNIT_SUBSCRIPTION) == _UNIT_SUBSCRIPTION
        )

    # What operators change; a registration with another data version undoes it.

    def wipe_write_permission(self, name: str) -> int:
        """The number of topics that the broker name has."""
        return self._change_permission(name, lambda perm: perm & ~Permission.WRITE)

    def add_write_permission(self, name: str) -> int:
        return self._change_permission(name, lambda _perm: _READ_AND_WRITE)

    def delete_topic(self, topic: str, cluster: str | None) -> None:
        """Everywhere, or on the brokers of one cluster only."""
        queues = self._topics.get(topic, {})
        gone = self._clusters().get(cluster, []) if cluster else list(queues)
        for name in gone:
            queues.pop(name, None)
        if not queues:
            self._topics.pop(topic, None)
            self._mappings.pop(topic, None)

    # Private.

    def _check(self, identity: BrokerIdentity, registration: BrokerRegistration) -> None:
        if identity.key not in self._live and len(registration.topics.topic_config_table) == 1:
            # A single topic is a change to a table that we do not have. Taking its data version
            # for that of the whole would hide the other topics.
            raise RegistrationRefused("a first registration must carry all topics")
        epoch = registration.topics.data_version.state_version
        self._check_succession(identity, epoch)
        group = self._groups.get(identity.name)
        address = group.broker_addrs.get(identity.broker_id) if group else None
        holder = self._live.get(BrokerKey(identity.cluster, address or ""))
        if holder is None or holder.identity.key == identity.key:
            return
        held = holder.data_version
        # Where there are epochs, the first of an epoch has it: two of one number cannot both be it.
        if held.state_version > epoch or held.state_version == epoch > 0:
            if identity.broker_id != MASTER_ID:
                # Masters find out about each other by themselves; slaves do not.
                self._refused[identity[:3]] = (identity.address, self._clock.monotonic_s())
            raise RegistrationRefused(
                f"{holder.identity.address} holds id {identity.broker_id} of {identity.name} in"
                f" epoch {held.state_version}, and this broker is of epoch {epoch}",
                holder=holder.identity.address,
                epoch=held.state_version,
            )

    def _check_succession(self, identity: BrokerIdentity, epoch: int) -> None:
        latest = self.latest_master(identity)
        if latest is None or identity.broker_id != MASTER_ID or identity.address == latest.address:
            return
        if latest.epoch > epoch:
            raise RegistrationRefused(
                f"{latest.address} was the master of {identity.name} in epoch {latest.epoch}, and"
                f" this broker is of epoch {epoch}: start it as a slave",
                holder=latest.address,
                epoch=latest.epoch,
            )

    def _note_master(self, identity: BrokerIdentity, epoch: int) -> None:
        if identity.broker_id == MASTER_ID and epoch > 0:
            latest = LatestMaster(identity.address, epoch, self._clock.monotonic_s())
            self._latest_masters[identity[:2]] = latest

    def _check_room(self, identity: BrokerIdentity, registration: BrokerRegistration) -> None:
        """Before anything is changed."""
        names = (identity.cluster, identity.name, identity.address)
        if any(len(each) > NAME_SIZE_MAX for each in names):
            raise RegistrationRefused(
                f"a name of more than {NAME_SIZE_MAX} characters", limit=NAME_SIZE_MAX
            )
        topics = registration.topics
        if any(len(topic) > NAME_SIZE_MAX for topic in topics.topic_config_table):
            raise RegistrationRefused(
                f"a topic of more than {NAME_SIZE_MAX} characters", limit=NAME_SIZE_MAX
            )
        if len(topics.topic_queue_mapping_info_map) > len(topics.topic_config_table):
            raise RegistrationRefused("it maps queues of more topics than it has")
        if len(registration.filter_server_list) > FILTER_SERVER_COUNT_MAX:
            raise RegistrationRefused(
                f"more than {FILTER_SERVER_COUNT_MAX} filter servers", limit=FILTER_SERVER_COUNT_MAX
            )
        if identity.key not in self._live and len(self._live) >= BROKER_COUNT_MAX:
            raise RegistrationRefused(
                f"{BROKER_COUNT_MAX} brokers are registered", limit=BROKER_COUNT_MAX
            )
        self._check_new_routes(
            sum(
                identity.name not in self._topics.get(topic, {})
                for topic in topics.topic_config_table
            )
        )

    def _check_new_routes(self, new_count: int) -> None:
        if new_count and self.route_count + new_count > self._route_count_max:
            raise TableFull("queues of topics at brokers", self._route_count_max, "maxRoutes")

    @property
    def route_count(self) -> int:
        """Topics times the broker names that have them."""
        return sum(map(len, self._topics.values()))

    def _joined_group(self, identity: BrokerIdentity, traits: BrokerTraits) -> BrokerData:
        group = self._groups.setdefault(
            identity.name, BrokerData(broker_name=identity.name, cluster=identity.cluster)
        )
        group.enable_acting_master = bool(traits.has_acting_master)
        group.zone_name = traits.zone
        # A slave that became master keeps its address under the new id only.
        _remove_address(group, identity.address)
        group.broker_addrs[identity.broker_id] = identity.address
        return group

    def _take_topics(
        self, name: str, registration: BrokerRegistration, group: BrokerData, *, has_changed: bool
    ) -> None:
        """Adds and replaces; topics that are missing in a registration are kept."""
        is_read_only = _is_read_only(group)
        for topic, config in registration.topics.topic_config_table.items():
            queues = self._topics.setdefault(topic, {})
            if has_changed or name not in queues:
                queues[name] = _queue_data(name, config, is_read_only=is_read_only)
        if has_changed:
            for topic, mapping in registration.topics.topic_queue_mapping_info_map.items():
                self._mappings.setdefault(topic, {})[name] = mapping

    def _twin_of(self, identity: BrokerIdentity, epoch: int) -> LiveBroker | None:
        """Another living broker with the same name, id and epoch."""
        twins = self.twins_of(identity)
        return next((live for live in twins if live.data_version.state_version == epoch), None)

    def _topics_of(self, name: str) -> dict[str, QueueData]:
        return {topic: queues[name] for topic, queues in self._topics.items() if name in queues}

    def _routes_of(self, name: str, registration: BrokerRegistration) -> dict[str, QueueData]:
        """The topics of a registration that was just taken over."""
        return {
            topic: self._topics[topic][name]
            for topic in registration.topics.topic_config_table
            if name in self._topics.get(topic, {})
        }

    def _restore(self, twin: LiveBroker, group: BrokerData) -> None:
        """The other broker of its name and id has left."""
        name = twin.identity.name
        group.broker_addrs[twin.identity.broker_id] = twin.identity.address
        if twin.own_topics is not None and twin.identity.broker_id == MASTER_ID:
            _remove_name(self._topics, name)
            for topic, queues in twin.own_topics.items():
                self._topics.setdefault(topic, {})[name] = queues
        twin.own_topics = None

    def _forget_where(self, is_gone: Callable[[LiveBroker], bool]) -> list[LiveBroker]:
        gone = [live for live in self._live.values() if is_gone(live)]
        for live in gone:
            self._forget(live)
        return gone

    def _forget(self, live: LiveBroker) -> None:
        del self._live[live.identity.key]
        name = live.identity.name
        group = self._groups.get(name)
        if group is None:
            return  # Another address had taken its place, and is gone as well.
        _remove_address(group, live.identity.address)
        twin = self._twin_of(live.identity, live.data_version.state_version)
        if twin is not None:
            self._restore(twin, group)
        elif not group.broker_addrs:
            del self._groups[name]
            _remove_name(self._topics, name)
            _remove_name(self._mappings, name)
        elif _is_read_only(group):
            self.wipe_write_permission(name)

    def _clusters(self) -> dict[str, list[str]]:
        clusters: dict[str, list[str]] = {}
        for name, group in self._groups.items():
            clusters.setdefault(group.cluster or "", []).append(name)
        return clusters

    def _filter_servers(self, groups: list[BrokerData]) -> dict[str, list[str]]:
        keys = [
            BrokerKey(group.cluster or "", address)
            for group in groups
            for address in group.broker_addrs.values()
        ]
        return {
            key.address: live.filter_servers
            for key in keys
            if (live := self._live.get(key)) and live.filter_servers
        }

    def _topics_by_flags(self, is_wanted: Callable[[int], bool]) -> list[str]:
        # All brokers of a topic send the same, so the first one is used.
        return [
            topic
            for topic, queues in self._topics.items()
            if is_wanted(next(iter(queues.values())).topic_sys_flag)
        ]

    def _change_permission(self, name: str, change: Callable[[int], int]) -> int:
        all_queues = [queues[name] for queues in self._topics.values() if name in queues]
        for queues in all_queues:
            queues.perm = change(queues.perm)
        return len(all_queues)


def _speaks_for_the_group(
    identity: BrokerIdentity, traits: BrokerTraits, group: BrokerData
) -> bool:
    """The master does; without one, 5.x lets the slave with the smallest id."""
    if identity.broker_id == MASTER_ID:
        return True
    return traits.has_acting_master is not None and identity.broker_id == min(group.broker_addrs)


def _is_read_only(group: BrokerData) -> bool:
    """A slave that acts for a lost master can be read from and no more."""
    return group.enable_acting_master and MASTER_ID not in group.broker_addrs


def _queue_data(name: str, config: TopicConfig, *, is_read_only: bool) -> QueueData:
    return QueueData(
        broker_name=name,
        perm=config.perm & ~Permission.WRITE if is_read_only else config.perm,
        read_queue_nums=config.read_queue_nums,
        topic_sys_flag=config.topic_sys_flag,
        write_queue_nums=config.write_queue_nums,
    )


def _remove_address(group: BrokerData, address: str) -> None:
    for broker_id in [each for each, held in group.broker_addrs.items() if held == address]:
        del group.broker_addrs[broker_id]


def _remove_name(table: dict[str, dict[str, V]], name: str) -> None:
    for topic in [each for each, by_name in table.items() if name in by_name]:
        del table[topic][name]
        if not table[topic]:
            del table[topic]
