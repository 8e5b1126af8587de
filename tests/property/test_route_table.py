"""Brokers that register, move, vanish and expire in any order leave no loose ends."""

from hypothesis import given, strategies as st

from roquet.namesrv.errors import RegistrationRefused
from roquet.namesrv.route_table import BrokerIdentity, BrokerTraits, RouteTable
from roquet.protocol.bodies.body import DataVersion
from roquet.protocol.bodies.name_server import BrokerRegistration
from roquet.protocol.bodies.topics import TopicConfig, TopicConfigTable
from roquet.protocol.command import Command
from tests.support.fake_clock import FakeClock

identities = st.builds(
    BrokerIdentity,
    cluster=st.sampled_from("cd"),
    name=st.sampled_from("ab"),
    broker_id=st.integers(0, 2),
    address=st.sampled_from(["x:1", "y:1", "z:1"]),
)
topic_names = st.lists(st.sampled_from("tuvw"), unique=True)


class Channel:
    def close(self, reason: str) -> None: ...

    def send_oneway(self, command: Command) -> None: ...


CHANNELS = [Channel(), Channel()]


@st.composite
def registrations(draw: st.DrawFn) -> BrokerRegistration:
    table = {name: TopicConfig(topic_name=name) for name in draw(topic_names)}
    version = DataVersion(counter=draw(st.integers(0, 1)), state_version=draw(st.integers(0, 1)))
    return BrokerRegistration(
        topics=TopicConfigTable(data_version=version, topic_config_table=table)
    )


class Model:
    """The table under test, and who must be alive in it."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.table = RouteTable(self.clock)

    def register(
        self,
        identity: BrokerIdentity,
        registration: BrokerRegistration,
        channel: int,
        *,
        acting: bool,
    ) -> None:
        traits = BrokerTraits(ha_address="ha:1", has_acting_master=acting)
        try:
            self.table.register(identity, traits, registration, CHANNELS[channel])
        except RegistrationRefused:
            return
        members = self.table.member_group(identity.cluster, identity.name).broker_addrs
        assert members[identity.broker_id] == identity.address
        assert self.table.data_version(identity.key) == registration.topics.data_version

    def unregister(self, identity: BrokerIdentity) -> None:
        self.table.unregister(identity)
        assert self.table.data_version(identity.key) is None

    def lose(self, channel: int) -> None:
        self.table.lose_channel(CHANNELS[channel])
        assert self.table.lose_channel(CHANNELS[channel]) == []

    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self.table.expire()

    def check(self) -> None:
        info = self.table.cluster_info()
        for name, group in info.broker_addr_table.items():
            assert group.broker_addrs, name
            assert len(set(group.broker_addrs.values())) == len(group.broker_addrs)
        in_clusters = [name for names in info.cluster_addr_table.values() for name in names]
        assert sorted(in_clusters) == sorted(info.broker_addr_table)
        for topic in self.table.topics():
            route = self.table.route(topic)
            assert route is not None
            assert {each.broker_name for each in route.queue_datas} == {
                each.broker_name for each in route.broker_datas
            }


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("register"), identities, registrations(), st.integers(0, 1), st.booleans()
        ),
        st.tuples(st.just("unregister"), identities),
        st.tuples(st.just("lose"), st.integers(0, 1)),
        st.tuples(st.just("wait"), st.sampled_from([50, 121])),
    ),
    max_size=25,
)


@given(steps=steps)
def test_the_tables_agree_whatever_happens_and_end_empty(
    steps: list[tuple[object, ...]],
) -> None:
    model = Model()
    for step in steps:
        match step:
            case (
                "register",
                BrokerIdentity() as who,
                BrokerRegistration() as what,
                int(channel),
                acting,
            ):
                model.register(who, what, channel, acting=bool(acting))
            case ("unregister", BrokerIdentity() as who):
                model.unregister(who)
            case ("lose", int(channel)):
                model.lose(channel)
            case ("wait", int(seconds)):
                model.wait(seconds)
        model.check()
    model.wait(121)
    assert model.table.cluster_info().broker_addr_table == {}
    assert model.table.topics() == []
