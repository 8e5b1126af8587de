"""Two brokers of one name without etcd, an operator, and a name server: random steps.

What is decided is decided by the brokers' own functions and by the name server's own table; logs
are left out. The operator promotes the slave when the master has been away for longer than answers
are trusted. From then on the old master must not acknowledge anything, whatever it comes back from.
"""

from dataclasses import dataclass
from random import Random

from roquet.broker.replication import leadership
from roquet.broker.replication.other_brokers import OtherBroker
from roquet.namesrv.errors import RegistrationRefused
from roquet.namesrv.route_table import BrokerIdentity, BrokerTraits, RouteTable
from roquet.protocol.bodies.body import DataVersion
from roquet.protocol.bodies.name_server import BrokerRegistration
from roquet.protocol.bodies.topics import TopicConfig, TopicConfigTable
from roquet.protocol.command import Command
from tests.support.fake_clock import FakeClock

# Longer than answers are trusted.
OPERATOR_WAITS_S = 3.0
_NAME = "broker"
_TOPICS = {name: TopicConfig(topic_name=name) for name in (_NAME, "another")}


@dataclass(eq=False)
class Broker:
    address: str
    # What its file says; what an operator, or a successor, has made of it is remembered.
    is_master_by_file: bool
    is_slave_for_good: bool = False
    is_running: bool = False
    is_stopped: bool = False
    is_master: bool = False
    epoch: int = 0
    trusted_until_s: float = 0.0
    has_rival: bool = False

    def close(self, _reason: str) -> None:
        """It is the channel that it registers on."""

    def send_oneway(self, _command: Command) -> None:
        """Notices are left out of the model."""

    @property
    def is_awake(self) -> bool:
        return self.is_running and not self.is_stopped


class SuccessionModel:
    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.clock = FakeClock()
        self._routes = RouteTable(self.clock)
        self.brokers = (Broker("one:1", is_master_by_file=True), Broker("two:1", False))
        self.violations: list[str] = []
        self.acknowledged_count = 0
        self.switch_count = 0
        self._away_since_s: float | None = None
        for broker in self.brokers:
            self.start(broker)

    def run(self, steps: int) -> None:
        actions = [
            *[self._acknowledge] * 6,
            *[self._check, self._register] * 4,
            *[self._wait] * 3,
            *[self._kill, self._stop, self._promote],
            *[self._start, self._wake] * 2,
        ]
        for _ in range(steps):
            self._random.choice(actions)()
            self._look_for_master()
            if self.violations:
                return

    def forget_names(self) -> None:
        """The name server is started again, and knows nothing."""
        self._routes = RouteTable(self.clock)

    # What breaks, and what people do.

    def _some(self) -> Broker:
        return self._random.choice(self.brokers)

    def _wait(self) -> None:
        self.clock.advance(self._random.choice((0.1, 0.5, 1.0, 4.0)))

    def _kill(self) -> None:
        self.kill(self._some())

    def kill(self, broker: Broker) -> None:
        broker.is_running = broker.is_stopped = broker.is_master = False
        self._routes.lose_channel(broker)

    def _stop(self) -> None:
        broker = self._some()
        broker.is_stopped = broker.is_running

    def _wake(self) -> None:
        self._some().is_stopped = False

    def _start(self) -> None:
        self.start(self._some())

    def start(self, broker: Broker) -> None:
        if broker.is_running:
            return
        broker.is_running = True
        broker.has_rival = False
        is_first = broker.is_master_by_file and not broker.is_slave_for_good
        if is_first and self._successor(broker, broker.epoch) is not None:
            broker.is_slave_for_good, is_first = True, False
        if is_first:
            self.lead(broker)

    def _promote(self) -> None:
        """The operator has seen no master for a while."""
        slaves = [each for each in self.brokers if each.is_awake and not each.is_master]
        if self._away_since_s is None or not slaves:
            return
        if self.clock.monotonic_s() - self._away_since_s > OPERATOR_WAITS_S:
            slave = slaves[0]
            slave.is_slave_for_good, slave.is_master_by_file = False, True
            # A slave has seen of the epoch of its master.
            slave.epoch = max(each.epoch for each in self.brokers if each is not slave)
            self.switch_count += 1
            self.lead(slave)

    def _look_for_master(self) -> None:
        if any(each.is_awake and each.is_master for each in self.brokers):
            self._away_since_s = None
        elif self._away_since_s is None:
            self._away_since_s = self.clock.monotonic_s()

    # What brokers do.

    def lead(self, broker: Broker) -> None:
        broker.is_master = True
        broker.epoch += 1
        broker.trusted_until_s = self.clock.monotonic_s() + leadership.TRUST_S
        self.register(broker)

    def _register(self) -> None:
        broker = self._some()
        if broker.is_awake and broker.is_master:
            self.register(broker)

    def register(self, broker: Broker) -> None:
        version = DataVersion(state_version=broker.epoch)
        table = TopicConfigTable(data_version=version, topic_config_table=_TOPICS)
        identity = self._identity(broker)
        traits = BrokerTraits(ha_address=broker.address)
        try:
            self._routes.register(identity, traits, BrokerRegistration(topics=table), broker)
        except RegistrationRefused:
            return

    def _check(self) -> None:
        self.check(self._some())

    def check(self, broker: Broker) -> None:
        if not (broker.is_awake and broker.is_master):
            return
        found = self._successor(broker, broker.epoch)
        broker.has_rival = found is not None and found.epoch == broker.epoch
        if found is not None and found.epoch > broker.epoch:
            broker.is_master, broker.is_slave_for_good = False, True
        broker.trusted_until_s = self.clock.monotonic_s() + leadership.TRUST_S

    def _successor(self, broker: Broker, epoch: int) -> OtherBroker | None:
        latest = self._routes.latest_master(self._identity(broker))
        if latest is None or latest.address == broker.address:
            return None
        holder = next(each for each in self.brokers if each.address == latest.address)
        epoch_told = holder.epoch if holder.is_awake else latest.epoch
        is_master = holder.is_awake and holder.is_master
        other = OtherBroker(holder.address, epoch_told, is_master=is_master)
        return leadership.successor(epoch, [other])

    def _identity(self, broker: Broker) -> BrokerIdentity:
        return BrokerIdentity("cluster", _NAME, 0, broker.address)

    def _acknowledge(self) -> None:
        self.acknowledge(self._some())

    def acknowledge(self, broker: Broker) -> None:
        is_trusted = self.clock.monotonic_s() < broker.trusted_until_s
        if not (broker.is_awake and broker.is_master and is_trusted and not broker.has_rival):
            return
        self.acknowledged_count += 1
        for other in self.brokers:
            if other is not broker and other.is_master and other.epoch >= broker.epoch:
                self.violations.append(
                    f"{broker.address} of epoch {broker.epoch} acknowledges, and {other.address} is"
                    f" the master of epoch {other.epoch}"
                )
