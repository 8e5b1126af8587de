"""The table of brokers and topics, without sockets."""

from dataclasses import dataclass, field

import pytest

from roquet.namesrv import route_table
from roquet.namesrv.errors import RegistrationRefused
from roquet.namesrv.route_table import (
    LOST_MASTER_MAX_S,
    SILENCE_MAX_S,
    BrokerIdentity,
    BrokerKey,
    BrokerTraits,
    RouteTable,
)
from roquet.net.errors import TableFull
from roquet.protocol.bodies.body import DataVersion
from roquet.protocol.bodies.name_server import BrokerRegistration, QueueData
from roquet.protocol.bodies.topics import (
    QueueMapping,
    TopicConfig,
    TopicConfigTable,
)
from roquet.protocol.command import Command
from tests.support.fake_clock import FakeClock
from tests.support.raising import raises

MASTER = BrokerIdentity("c", "a", 0, "10.0.0.1:10911")
SLAVE = BrokerIdentity("c", "a", 1, "10.0.0.2:10911")
OTHER = BrokerIdentity("d", "b", 0, "10.0.0.3:10911")


@dataclass(eq=False)
class FakeChannel:
    reasons: list[str] = field(default_factory=list)

    def close(self, reason: str) -> None:
        self.reasons.append(reason)

    def send_oneway(self, command: Command) -> None:  # noqa: ARG002
        raise AssertionError("the table sends nothing")


def topics_of(*names: str, version: int = 1, **config: int) -> BrokerRegistration:
    return BrokerRegistration(
        topics=TopicConfigTable(
            data_version=DataVersion(counter=version),
            topic_config_table={
                name: TopicConfig(topic_name=name, **config)  # type: ignore[arg-type]
                for name in names
            },
        )
    )


class Table:
    """A route table, and registrations without the details a test does not care about."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.routes = RouteTable(self.clock)

    def register(
        self,
        identity: BrokerIdentity,
        registration: BrokerRegistration,
        *,
        channel: FakeChannel | None = None,
        has_acting_master: bool | None = None,
        silence_max_s: float = 120,
    ) -> bool:
        traits = BrokerTraits(
            ha_address=identity.address.replace("10911", "10912"),
            has_acting_master=has_acting_master,
            silence_max_s=silence_max_s,
        )
        return self.routes.register(identity, traits, registration, channel or FakeChannel())

    def permission(self, topic: str) -> int:
        route = self.routes.route(topic)
        assert route is not None
        return route.queue_datas[0].perm

    def queue_count(self, topic: str) -> int:
        route = self.routes.route(topic)
        assert route is not None
        return route.queue_datas[0].write_queue_nums

    def addresses(self, name: str) -> dict[int, str]:
        return self.routes.member_group("c", name).broker_addrs


@pytest.fixture
def table() -> Table:
    return Table()


def test_a_registered_topic_has_a_route(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u", read_queue_nums=4, write_queue_nums=2, perm=6))
    route = table.routes.route("t")
    assert route is not None
    (queues,) = route.queue_datas
    assert queues == QueueData(
        broker_name="a", read_queue_nums=4, write_queue_nums=2, perm=6, topic_sys_flag=0
    )
    (group,) = route.broker_datas
    assert (group.broker_name, group.cluster) == ("a", "c")
    assert group.broker_addrs == {0: "10.0.0.1:10911"}
    assert table.routes.route("unknown") is None


def test_a_topic_of_two_brokers_leads_to_both(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u"))
    table.register(OTHER, topics_of("t", "v"))
    route = table.routes.route("t")
    assert route is not None
    assert {queues.broker_name for queues in route.queue_datas} == {"a", "b"}
    assert {group.broker_name for group in route.broker_datas} == {"a", "b"}


def test_only_the_first_registration_is_news(table: Table) -> None:
    assert table.register(MASTER, topics_of("t", "u"))
    assert not table.register(MASTER, topics_of("t", "u"))


def test_a_slave_adds_its_address_but_no_topics(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u"))
    table.register(SLAVE, topics_of("t", "u", "only-on-the-slave", version=7))
    route = table.routes.route("t")
    assert route is not None
    assert route.broker_datas[0].broker_addrs == {0: MASTER.address, 1: SLAVE.address}
    assert table.routes.route("only-on-the-slave") is None


def test_a_slave_learns_of_its_living_master(table: Table) -> None:
    table.register(SLAVE, topics_of())
    assert table.routes.master_of(SLAVE) is None
    table.register(MASTER, topics_of("t", "u"))
    master = table.routes.master_of(SLAVE)
    assert master is not None
    assert master.identity == MASTER
    assert master.traits.ha_address == "10.0.0.1:10912"
    assert table.routes.master_of(MASTER) is None
    table.routes.unregister(MASTER)
    assert table.routes.master_of(SLAVE) is None


def test_topics_that_are_missing_in_a_registration_are_kept(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u"))
    table.register(MASTER, topics_of("u", "v", version=2))
    assert set(table.routes.topics()) == {"t", "u", "v"}


def test_one_changed_topic_is_an_update(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u", perm=6))
    table.register(MASTER, topics_of("t", version=2, perm=4))
    assert table.permission("t") == 4
    assert table.permission("u") == 6


def test_topics_of_an_unchanged_version_are_not_looked_at(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u", perm=6))
    table.register(MASTER, topics_of("t", "u", perm=4))
    assert table.permission("t") == 6


def test_a_deleted_topic_returns_with_a_registration_that_has_it(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u"))
    table.routes.delete_topic("t", None)
    table.register(MASTER, topics_of("t", "u"))
    assert table.routes.route("t") is not None


def test_a_first_registration_of_a_single_topic_is_refused(table: Table) -> None:
    with pytest.raises(RegistrationRefused):
        table.register(MASTER, topics_of("t"))
    assert table.routes.cluster_info().broker_addr_table == {}
    assert table.routes.data_version(MASTER.key) is None


def test_a_later_epoch_is_not_replaced_by_an_earlier_one(table: Table) -> None:
    later = topics_of("t", "u")
    later.topics.data_version = DataVersion(state_version=5)
    table.register(MASTER, later)
    usurper = MASTER._replace(address="10.0.0.9:10911")
    with raises(RegistrationRefused, holder=MASTER.address, epoch=5):
        table.register(usurper, topics_of("t", "u"))
    assert table.addresses("a") == {0: MASTER.address}
    assert not table.register(MASTER, topics_of("t", "u"))  # its own restart is no usurpation


def of_epoch(epoch: int) -> BrokerRegistration:
    registration = topics_of("t", "u")
    registration.topics.data_version = DataVersion(state_version=epoch)
    return registration


def test_of_two_brokers_of_one_epoch_the_first_stays(table: Table) -> None:
    """An old master that starts from its own file counts up to the epoch of its successor."""
    table.register(MASTER, of_epoch(5))
    rival = MASTER._replace(address="10.0.0.9:10911")
    with raises(RegistrationRefused, holder=MASTER.address, epoch=5):
        table.register(rival, of_epoch(5))
    assert table.addresses("a") == {0: MASTER.address}
    table.register(rival, of_epoch(6))
    assert table.addresses("a") == {0: rival.address}


def test_a_master_that_is_lost_keeps_those_away_that_it_succeeded(table: Table) -> None:
    """Whoever comes back first must not take its place."""
    promoted, old = SLAVE._replace(broker_id=0), MASTER
    channel = FakeChannel()
    table.register(promoted, of_epoch(6), channel=channel)
    table.routes.lose_channel(channel)
    with raises(RegistrationRefused, holder=promoted.address, epoch=6):
        table.register(old, of_epoch(5))
    table.clock.advance(LOST_MASTER_MAX_S + 1)
    table.routes.expire()
    table.register(old, of_epoch(5))


def test_a_master_that_has_left_in_order_does_not_block_a_promotion(table: Table) -> None:
    table.register(MASTER, of_epoch(6))
    table.routes.unregister(MASTER)
    table.register(SLAVE._replace(broker_id=0), of_epoch(1))


def test_a_second_broker_of_one_name_and_id_is_named(table: Table) -> None:
    other = MASTER._replace(address="10.0.0.9:10911")
    table.register(MASTER, topics_of("t", "u"))
    assert table.routes.duplicate_of(MASTER) is None
    table.register(other, topics_of("t", "u"))
    assert table.routes.duplicate_of(MASTER) == other.address
    assert table.routes.duplicate_of(other) == MASTER.address
    table.routes.unregister(other)
    assert table.routes.duplicate_of(MASTER) is None


def test_a_slave_that_was_refused_is_named_to_the_one_that_has_its_id(table: Table) -> None:
    twin = SLAVE._replace(address="10.0.0.9:10911")
    table.register(SLAVE, of_epoch(5))
    with pytest.raises(RegistrationRefused):
        table.register(twin, of_epoch(0))
    assert table.routes.duplicate_of(SLAVE) == twin.address
    table.register(SLAVE, of_epoch(5))
    table.clock.advance(SILENCE_MAX_S - 1)
    table.register(SLAVE, of_epoch(5))
    table.clock.advance(2)
    table.routes.expire()
    assert table.routes.duplicate_of(SLAVE) is None


TWIN = MASTER._replace(address="10.0.0.4:10911")


def test_of_two_brokers_of_one_name_the_other_is_back_when_one_leaves(table: Table) -> None:
    channel = FakeChannel()
    table.register(MASTER, topics_of("t", "u", write_queue_nums=4))
    table.register(TWIN, topics_of("t", "v", write_queue_nums=8), channel=channel)
    assert table.addresses("a") == {0: TWIN.address}
    assert table.routes.duplicate_of(MASTER) == TWIN.address
    table.routes.lose_channel(channel)
    assert table.addresses("a") == {0: MASTER.address}
    assert table.routes.duplicate_of(MASTER) is None
    assert sorted(table.routes.topics()) == ["t", "u"]
    assert table.queue_count("t") == 4


def test_the_one_that_registered_last_keeps_its_own_routes(table: Table) -> None:
    for identity, count in ((MASTER, 4), (TWIN, 8), (MASTER, 4)):
        table.register(identity, topics_of("t", identity.address, write_queue_nums=count))
    assert table.addresses("a") == {0: MASTER.address}
    assert table.queue_count("t") == 4
    table.routes.unregister(TWIN)
    assert table.addresses("a") == {0: MASTER.address}
    assert sorted(table.routes.topics()) == sorted([MASTER.address, "t"])
    table.routes.unregister(MASTER)
    assert table.routes.topics() == []
    assert table.addresses("a") == {}


def test_of_three_brokers_of_one_name_the_last_one_is_left(table: Table) -> None:
    third = MASTER._replace(address="10.0.0.5:10911")
    for identity in (MASTER, TWIN, third):
        table.register(identity, topics_of("t", identity.address))
    for identity in (third, MASTER):
        table.routes.unregister(identity)
    assert table.addresses("a") == {0: TWIN.address}
    assert sorted(table.routes.topics()) == sorted([TWIN.address, "t"])


def test_a_successor_is_no_duplicate(table: Table) -> None:
    table.register(MASTER, of_epoch(5))
    promoted = SLAVE._replace(broker_id=0)
    table.register(promoted, of_epoch(6))
    assert table.routes.duplicate_of(promoted) is None


def test_a_slave_that_becomes_master_leaves_its_old_id(table: Table) -> None:
    table.register(SLAVE, topics_of("t", "u"))
    table.register(SLAVE._replace(broker_id=0), topics_of("t", "u"))
    assert table.addresses("a") == {0: SLAVE.address}


def test_a_broker_restarted_under_another_name_leaves_nothing_behind(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u"))
    table.register(MASTER._replace(name="z"), topics_of("t", "u"))
    assert table.routes.cluster_info().cluster_addr_table == {"c": ["z"]}
    route = table.routes.route("t")
    assert route is not None
    assert [queues.broker_name for queues in route.queue_datas] == ["z"]


def test_the_last_address_takes_name_and_topics_along(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u"))
    table.register(OTHER, topics_of("t", "v"))
    table.register(SLAVE, topics_of())
    assert table.routes.unregister(MASTER)
    assert table.routes.route("u") is not None  # the slave still serves readers
    assert table.routes.unregister(SLAVE)
    assert not table.routes.unregister(SLAVE)
    assert table.routes.route("u") is None
    assert set(table.routes.topics()) == {"t", "v"}
    assert table.routes.cluster_info().cluster_addr_table == {"d": ["b"]}


def test_the_late_farewell_of_a_former_address_is_harmless(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u"))
    moved = MASTER._replace(address="10.0.0.9:10911")
    table.register(moved, topics_of("t", "u"))
    table.routes.unregister(MASTER)
    assert table.addresses("a") == {0: moved.address}
    table.register(MASTER, topics_of("t", "u"))
    table.register(moved, topics_of("t", "u"))
    table.routes.unregister(moved)
    table.routes.unregister(MASTER)
    assert table.routes.topics() == []


def test_a_lost_channel_takes_its_broker_along(table: Table) -> None:
    channel, other_channel = FakeChannel(), FakeChannel()
    table.register(MASTER, topics_of("t", "u"), channel=channel)
    table.register(OTHER, topics_of("t", "v"), channel=other_channel)
    assert [live.identity for live in table.routes.lose_channel(channel)] == [MASTER]
    assert table.routes.lose_channel(channel) == []
    assert set(table.routes.topics()) == {"t", "v"}


def test_the_old_channel_of_a_broker_that_registered_again_means_nothing(table: Table) -> None:
    old, new = FakeChannel(), FakeChannel()
    table.register(MASTER, topics_of("t", "u"), channel=old)
    table.register(MASTER, topics_of("t", "u"), channel=new)
    assert table.routes.lose_channel(old) == []
    assert table.routes.route("t") is not None


def test_silence_of_more_than_two_minutes_expires_a_broker(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u"))
    table.clock.advance(100)
    table.register(OTHER, topics_of("t", "v"))
    table.clock.advance(20)
    assert table.routes.expire() == []
    table.clock.advance(0.001)
    assert [live.identity for live in table.routes.expire()] == [MASTER]
    assert set(table.routes.topics()) == {"t", "v"}


def test_signs_of_life_put_expiry_off(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u"))
    for _ in range(3):
        table.clock.advance(119)
        table.routes.refresh(MASTER.key)
        assert table.routes.expire() == []
    table.routes.refresh(BrokerKey("c", "unknown"))
    table.clock.advance(121)
    assert len(table.routes.expire()) == 1


def test_a_broker_may_ask_for_another_limit(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u"), silence_max_s=10)
    table.clock.advance(11)
    assert len(table.routes.expire()) == 1


def test_data_versions_are_known_by_address(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u", version=3))
    assert table.routes.data_version(MASTER.key) == DataVersion(counter=3)
    assert table.routes.data_version(SLAVE.key) is None


def test_a_slave_that_may_act_speaks_for_the_group_and_only_to_readers(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u"), has_acting_master=True)
    table.register(SLAVE, topics_of("t", "u"), has_acting_master=True)
    assert table.permission("t") == 6
    table.routes.unregister(MASTER)
    assert table.permission("t") == 4
    table.register(SLAVE, topics_of("t", "u", "new", version=2), has_acting_master=True)
    assert table.permission("new") == 4
    table.register(MASTER, topics_of("t", "u", "new", version=2), has_acting_master=True)
    assert table.permission("t") == 6


def test_a_slave_that_becomes_master_can_be_written_to(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u"), has_acting_master=True)
    table.register(SLAVE, topics_of("t", "u"), has_acting_master=True)
    table.routes.unregister(MASTER)
    table.register(SLAVE._replace(broker_id=0), topics_of("t", "u"), has_acting_master=True)
    assert table.permission("t") == 6


def test_a_modern_slave_alone_brings_its_topics(table: Table) -> None:
    table.register(SLAVE, topics_of("t", "u"), has_acting_master=False)
    assert table.permission("t") == 6


def test_write_permission_is_wiped_and_given_back(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u", perm=7))
    table.register(OTHER, topics_of("t", "v", perm=7))
    assert table.routes.wipe_write_permission("a") == 2
    assert table.permission("u") == 5
    assert table.permission("v") == 7
    table.register(MASTER, topics_of("t", "u", perm=7))
    assert table.permission("u") == 5  # the same version does not undo it
    assert table.routes.add_write_permission("a") == 2
    assert table.permission("u") == 6
    table.routes.wipe_write_permission("a")
    table.register(MASTER, topics_of("t", "u", perm=7, version=2))
    assert table.permission("u") == 7
    assert table.routes.wipe_write_permission("nobody") == 0


def test_a_topic_is_deleted_everywhere_or_in_one_cluster(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u"))
    table.register(OTHER, topics_of("t", "u"))
    table.routes.delete_topic("t", "c")
    route = table.routes.route("t")
    assert route is not None
    assert [queues.broker_name for queues in route.queue_datas] == ["b"]
    table.routes.delete_topic("t", "d")
    assert table.routes.topics() == ["u"]
    table.routes.delete_topic("u", None)
    table.routes.delete_topic("u", "no such cluster")
    assert table.routes.topics() == []


def test_topics_are_listed_by_cluster_and_by_unit_flags(table: Table) -> None:
    table.register(MASTER, topics_of("plain", "plain2"))
    table.register(OTHER, topics_of("unit", "unit2", topic_sys_flag=1))
    table.register(OTHER, topics_of("sub", "sub2", topic_sys_flag=2, version=2))
    table.register(OTHER, topics_of("both", "both2", topic_sys_flag=3, version=3))
    routes = table.routes
    assert routes.topics_of_cluster("c") == ["plain", "plain2"]
    assert routes.topics_of_cluster("nowhere") == []
    assert routes.unit_topics() == ["unit", "unit2", "both", "both2"]
    assert routes.unit_subscription_topics() == ["sub", "sub2", "both", "both2"]
    assert routes.unit_subscription_topics_outside_units() == ["sub", "sub2"]


def test_clusters_and_broker_names_are_system_topics(table: Table) -> None:
    assert table.routes.system_topics() == []
    assert table.routes.any_address() is None
    table.register(MASTER, topics_of())
    table.register(OTHER, topics_of())
    assert set(table.routes.system_topics()) == {"a", "b", "c", "d"}
    assert table.routes.any_address() in (MASTER.address, OTHER.address)


def test_filter_servers_are_shown_with_the_address_they_work_for(table: Table) -> None:
    registration = topics_of("t", "u")
    registration.filter_server_list = ["10.0.0.1:20000"]
    table.register(MASTER, registration)
    table.register(SLAVE, topics_of())
    route = table.routes.route("t")
    assert route is not None
    assert route.filter_server_table == {MASTER.address: ["10.0.0.1:20000"]}


def test_queue_mappings_travel_with_the_route_and_go_with_the_broker(table: Table) -> None:
    registration = topics_of("t", "u")
    mapping = QueueMapping(topic="t", bname="a", total_queues=4)
    registration.topics.topic_queue_mapping_info_map = {"t": mapping}
    table.register(MASTER, registration)
    table.register(OTHER, topics_of("t", "v"))
    route = table.routes.route("t")
    assert route is not None
    assert route.topic_queue_mapping_by_broker == {"a": mapping}
    table.routes.unregister(MASTER)
    route = table.routes.route("t")
    assert route is not None
    assert route.topic_queue_mapping_by_broker == {}


def test_queues_of_known_brokers_can_be_added_to_a_topic(table: Table) -> None:
    table.register(MASTER, topics_of("t", "u"))
    table.routes.register_topic(
        "added",
        [
            QueueData(broker_name="a", read_queue_nums=1, write_queue_nums=1),
            QueueData(broker_name="unknown", read_queue_nums=1, write_queue_nums=1),
        ],
    )
    table.routes.register_topic(
        "void", [QueueData(broker_name="unknown", read_queue_nums=1, write_queue_nums=1)]
    )
    route = table.routes.route("added")
    assert route is not None
    assert [queues.broker_name for queues in route.queue_datas] == ["a"]
    assert "void" not in table.routes.topics()


def test_routes_have_a_bound(table: Table) -> None:
    table.routes = RouteTable(table.clock, route_count_max=3)
    table.register(MASTER, topics_of("t", "u"))
    with raises(TableFull, limit=3, setting="maxRoutes"):
        table.register(MASTER, topics_of("t", "u", "v", "w", version=2))
    assert table.routes.route_count == 2
    table.register(MASTER, topics_of("t", "u", "v", version=2))
    with pytest.raises(TableFull):
        table.routes.register_topic(
            "more", [QueueData(broker_name=MASTER.name, read_queue_nums=1, write_queue_nums=1)]
        )
    table.routes.register_topic(
        "t", [QueueData(broker_name=MASTER.name, read_queue_nums=1, write_queue_nums=1)]
    )
    table.routes.unregister(MASTER)
    assert table.routes.route_count == 0


@pytest.mark.parametrize(
    ("identity", "registration"),
    [
        (MASTER._replace(name="n" * 256), topics_of("t", "u")),
        (MASTER._replace(address="a" * 256), topics_of("t", "u")),
        (MASTER, topics_of("t", "u" * 256)),
        (
            MASTER,
            BrokerRegistration(topics=topics_of("t", "u").topics, filter_server_list=["f"] * 101),
        ),
    ],
)
def test_what_a_broker_says_of_itself_has_a_bound(
    table: Table, identity: BrokerIdentity, registration: BrokerRegistration
) -> None:
    with pytest.raises(RegistrationRefused):
        table.register(identity, registration)
    assert table.routes.topics() == []


def test_brokers_have_a_bound(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(route_table, "BROKER_COUNT_MAX", 1)
    table.register(MASTER, topics_of("t", "u"))
    with raises(RegistrationRefused, limit=1):
        table.register(MASTER._replace(address="other:1"), topics_of("t", "u"))


def test_a_topic_with_a_name_without_end_is_refused(table: Table) -> None:
    with raises(RegistrationRefused, limit=255):
        table.routes.register_topic("t" * 256, [])
