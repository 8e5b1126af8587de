"""The embedded cluster: one name server and some brokers on the event loop of the test."""

import asyncio
import string
from collections.abc import Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from functools import cache
from itertools import count
from pathlib import Path
from typing import Final, final

from msgspec.structs import replace

from roquet.broker.broker import Broker
from roquet.broker.settings.apache_keys import read_config
from roquet.broker.settings.config import SMALL_FILES, BrokerConfig
from roquet.broker.supervisor import BrokerSupervisor, supervised_broker
from roquet.client.arguments import bad
from roquet.client.errors import BadArgument, NotOpen, RequestRefused
from roquet.client.lifecycle import AsyncResource
from roquet.client.received import ReceivedMessage, received_of
from roquet.disk import Space, SystemDisk
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.server import serve_names
from roquet.net.peers import Peers
from roquet.net.router import Router
from roquet.protocol.codes import Permission, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_of
from roquet.protocol.headers.topics import CreateTopicHeader
from roquet.protocol.host import Address
from roquet.protocol.names import TEMPLATE_TOPIC, dlq_topic
from roquet.temporary import remove_leftovers, temporary_directory
from roquet.testing.clock import MovableClock
from roquet.testing.own_etcd import failover_settings, own_etcd
from roquet.testing.progress import (
    HasDeadLetters,
    NotConsumed,
    NotReceived,
    left_at,
    records_of,
)

BROKER_COUNT_MAX: Final = len(string.ascii_lowercase)
REPLICA_COUNT_MAX: Final = 8

_HOST: Final = "127.0.0.1"
_WHAT: Final = "cluster"
_TIMEOUT_S: Final = 10.0
_IN_SYNC_TIMEOUT_S: Final = 60.0
_LOOK_AGAIN_S: Final = 0.02

# Small files, which are made quickly, and looks at transactions that notice a clock that moved.
_SETTINGS: Final = SMALL_FILES | {
    "transactionCheckInterval": "200",
    "enablePropertyFilter": "true",
}


@final
class Cluster(AsyncResource):
    """Answers while the block runs, at free ports; its directory goes with it.

    The brokers are called "broker-a", "broker-b" and so on. With `replicas` each has as many
    slaves, "broker-a/1" and so on, which copy what it has. `settings` are those of all brokers,
    under the keys of Apache's broker.conf, such as {"autoCreateTopicEnable": "false"}; with
    {"brokerRole": "SYNC_MASTER"} a send is answered when a slave has it.

    With `failover` a slave steps in for a master that is gone: an etcd is started for the cluster,
    which has to be installed (Debian's etcd-server). A send is answered when a majority of the
    brokers of a name has it. With two replicas that continues without one of the three; with one,
    sends raise NotYetSafe until `start_broker` has brought back the one that was killed.
    """

    def __init__(
        self,
        *,
        brokers: int = 1,
        replicas: int = 0,
        failover: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        if not 1 <= brokers <= BROKER_COUNT_MAX:
            raise bad("brokers", f"1 to {BROKER_COUNT_MAX}", brokers)
        if not 0 <= replicas <= REPLICA_COUNT_MAX:
            raise bad("replicas", f"0 to {REPLICA_COUNT_MAX}", replicas)
        if failover and not replicas:
            raise BadArgument("`failover` needs a slave: use replicas=1 or more", "replicas")
        self.clock = MovableClock()
        self._has_failover = failover
        self._replica_count = replicas
        self.broker_names = [f"broker-{letter}" for letter in string.ascii_lowercase[:brokers]]
        self._slaves = {
            f"{name}/{number}": (name, number)
            for name in self.broker_names
            for number in range(1, replicas + 1)
        }
        self._settings = _SETTINGS | dict(settings or {})
        self._stack = AsyncExitStack()
        self._names: AsyncExitStack | None = None
        self._name_server_port = 0
        self._running: dict[str, AsyncExitStack] = {}
        self._supervisors: dict[str, BrokerSupervisor] = {}
        self._directory: Path | None = None
        self._is_closed = False
        self._topic_numbers = count(1)

    @property
    def name_server(self) -> str:
        """What clients are given. It stays the same for as long as the cluster lives."""
        self._check_open()
        return str(Address(_HOST, self._name_server_port))

    def broker_address(self, name: str = "broker-a") -> str:
        """Where the broker is, or was before it was stopped."""
        self._check_open()
        self._check_name(name)
        return str(Address(_HOST, self._brokers[name].config.listen_port))

    async def open(self) -> None:
        """A second time does nothing."""
        if self._is_closed:
            raise NotOpen(_WHAT, was_open=True)
        if self._directory is not None:
            return
        try:
            await self._start_all()
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stops everything and removes the directory; a second time does nothing."""
        self._is_closed = True
        await self._stack.aclose()

    async def new_topic(self, name: str | None = None, *, queues: int = 4) -> str:
        """Makes a topic with that many queues on each broker that runs, and returns its name.

        Without a name it gets one that no other topic has. Raises RequestRefused.
        """
        self._check_open()
        name = name or f"topic-{next(self._topic_numbers)}"
        header = CreateTopicHeader(
            topic=name,
            default_topic=TEMPLATE_TOPIC,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=Permission.READ | Permission.WRITE,
            topic_filter_type="SINGLE_TAG",
        )
        peers = Peers(Router(None, ()), self.clock)
        try:
            for master in self._masters().values():
                await _tell(peers, self.broker_address(master), header)
        finally:
            await peers.close()
        if self._has_failover:
            # A successor has to know it.
            await self.copied()
        return name

    def received(self, topic: str) -> list[ReceivedMessage]:
        """The messages that a topic has now, in the order in which they were stored.

        None if there is none. What is delayed comes when it is due.
        """
        self._check_open()
        found = [
            received_of(record, name)
            for name in self._asked()
            for queue_id in self._brokers[name].store.queues().get(topic, ())
            for record in records_of(self._brokers[name], topic, queue_id)
        ]
        return sorted(found, key=lambda each: (each.record.store_timestamp, each.queue_offset))

    async def wait_received(
        self, topic: str, count: int, *, timeout_s: float = 30.0
    ) -> list[ReceivedMessage]:
        """Returns the messages of a topic as soon as it has `count` of them, or more.

        Raises NotReceived.
        """
        found = self.received(topic)
        try:
            async with asyncio.timeout(timeout_s):
                while len(found) < count:
                    await asyncio.sleep(_LOOK_AGAIN_S)
                    found = self.received(topic)
        except TimeoutError:
            raise NotReceived(topic, len(found), count, timeout_s) from None
        return found

    async def consumed(
        self,
        group: str,
        *,
        timeout_s: float = 30.0,
        skip_delays: bool = False,
        allow_dead_letters: bool = False,
    ) -> None:
        """Returns when a group is done with all that its topics have, retries included.

        With `skip_delays` the clock is advanced to the next retry, or to the next message that a
        producer delayed, as soon as nothing else is left. A pull consumer is done with what it has
        handed out. Raises NotConsumed, which lists what is left, when that takes longer than
        `timeout_s`, and HasDeadLetters when some messages have failed for good.
        """
        self._check_open()
        peers = Peers(Router(None, ()), self.clock)
        left = ["its members do not answer"]
        try:
            async with asyncio.timeout(timeout_s):
                # There is no notification of a member's progress: poll it.
                while left := await self._left(peers, group, skip_delays):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_AGAIN_S)
        except TimeoutError:
            raise NotConsumed(group, timeout_s, left) from None
        finally:
            await peers.close()
        letters = [] if allow_dead_letters else self.received(dlq_topic(group))
        if letters:
            raise HasDeadLetters(group, letters)

    async def copied(self, *, timeout_s: float = 30.0) -> None:
        """Returns when the slaves that run have all that their masters have, tables included.

        Without it tables take ten seconds. With `failover` they are in sync then: if one is lost,
        one of the others can step in. Raises TimeoutError.
        """
        self._check_open()
        masters = self._masters()
        pairs = [
            (self._brokers[masters[broker_name]], self._brokers[name])
            for name in self._running
            if (broker_name := self._broker_name(name)) in masters and masters[broker_name] != name
        ]
        async with asyncio.timeout(timeout_s):
            for master, slave in pairs:
                # A slave that has just started may not know its master yet.
                while slave.replication.master_address is None:
                    slave.registrar.refresh_soon()
                    await asyncio.sleep(_LOOK_AGAIN_S)
                await slave.replication.table_sync.sync()
                while not self._is_copied(master, slave):  # noqa: ASYNC110
                    await asyncio.sleep(_LOOK_AGAIN_S)

    async def kill_master(self, name: str = "broker-a") -> str:
        """Its connections break, and only its slaves are left.

        Returns which one it was: `start_broker` brings it back, with all that it had. With
        `failover` one of the others is elected, which `elected` waits for, and the rest follow it,
        which `copied` waits for; before that, sends may raise NotYetSafe. Raises BadArgument
        without a slave.
        """
        self._check_open()
        if name not in {master for master, _ in self._slaves.values()}:
            raise BadArgument(f"{name!r} has no slaves: use Cluster(replicas=1)")
        master = await self.elected(name) if self._has_failover else name
        await self.stop_broker(master)
        return master

    async def elected(self, name: str = "broker-a", *, timeout_s: float = 60.0) -> str:
        """Which of the brokers of this name is its master, as soon as one is.

        Raises TimeoutError.
        """
        self._check_open()
        self._check_name(name)
        async with asyncio.timeout(timeout_s):
            # No command is sent: etcd decides.
            while (master := self._masters().get(name)) is None:  # noqa: ASYNC110
                await asyncio.sleep(_LOOK_AGAIN_S)
        return master

    async def restart_broker(self, name: str = "broker-a") -> None:
        """Its messages stay, its connections do not."""
        await self.stop_broker(name)
        await self.start_broker(name)

    async def stop_broker(self, name: str = "broker-a") -> None:
        """One that is stopped already stays so."""
        self._check_open()
        self._check_name(name)
        if name in self._running:
            await self._running.pop(name).aclose()

    async def start_broker(self, name: str = "broker-a") -> None:
        """Starts it where it was before; one that runs continues."""
        directory = self._check_open()
        self._check_name(name)
        if name in self._running:
            return
        config = self._config(name, directory)
        stack = AsyncExitStack()
        living = supervised_broker(config, self.clock, _TemporaryDisk())
        self._supervisors[name] = await stack.enter_async_context(living)
        self._running[name] = stack

    async def stop_name_server(self) -> None:
        """One that is stopped already stays so."""
        self._check_open()
        await self._stop_name_server()

    async def start_name_server(self) -> None:
        """At the same address; brokers register again. A running one is left alone."""
        directory = self._check_open()
        if self._names is not None:
            return
        config = NameServerConfig(
            host=_HOST, port=self._name_server_port, kv_config_path=directory / "kvConfig.json"
        )
        serving = serve_names(config, self.clock, _TemporaryDisk())
        stack = AsyncExitStack()
        server = await stack.enter_async_context(serving)
        self._names = stack
        self._name_server_port = server.config.port
        for name in self._running:
            self._brokers[name].registrar.refresh_soon()

    # How it is done.

    def _check_open(self) -> Path:
        if self._directory is None or self._is_closed:
            raise NotOpen(_WHAT, was_open=self._is_closed)
        return self._directory

    def _check_name(self, name: str) -> None:
        names = [*self.broker_names, *self._slaves]
        if name not in names:
            raise BadArgument(f"no broker is called {name!r}; there are {names}", "name")

    @property
    def _brokers(self) -> dict[str, Broker]:
        """Those of now; of one that is stopped, the last one."""
        return {name: each.broker for name, each in self._supervisors.items()}

    def _broker_name(self, name: str) -> str:
        """Of the master, which its slaves have in common with it."""
        return self._slaves.get(name, (name, 0))[0]

    def _masters(self) -> dict[str, str]:
        """The current master of a broker name, if there is one."""
        serving = {name: self._supervisors[name].serving for name in self._running}
        return {
            self._broker_name(name): name
            for name, broker in serving.items()
            if broker is not None and not broker.config.is_slave
        }

    def _is_copied(self, master: Broker, slave: Broker) -> bool:
        has_all = slave.store.log_end >= master.store.log_end
        if not self._has_failover:
            return has_all
        replicas, replica_id = master.replication.replicas, slave.config.replica_id
        links = [each.replica for each in replicas.slaves if each.replica is not None]
        return has_all and any(
            each.replica_id == replica_id and each in (replicas.members or ()) for each in links
        )

    def _asked(self) -> list[str]:
        """Of each broker the master or, while it is away, a slave that has what it had."""
        found = self._masters()
        for name in sorted(self._running):
            found.setdefault(self._broker_name(name), name)
        return list(found.values())

    def _config(self, name: str, directory: Path) -> BrokerConfig:
        root = directory / name.replace("/", "-slave-")
        config, ignored = read_config(self._settings | self._own_settings(name), root)
        if ignored:
            raise BadArgument(
                f"`settings` has keys without effect: {', '.join(ignored)}", "settings"
            )
        before = self._supervisors.get(name)
        port = 0 if before is None else before.broker.config.listen_port
        return replace(config, bind_address=_HOST, listen_port=port)

    def _own_settings(self, name: str) -> dict[str, str]:
        master, number = self._slaves.get(name, (name, 0))
        settings = {"brokerName": master, "namesrvAddr": self.name_server}
        if name in self._slaves:
            settings |= {"brokerRole": "SLAVE", "brokerId": str(number)}
        if self._has_failover:
            # Every broker may become a slave, so every one has an id above 0.
            settings["brokerId"] = str(number + 1)
        return settings

    async def _left(self, peers: Peers, group: str, skip_delays: bool) -> list[str]:
        """What the group has still to do, at all brokers that run."""
        found = []
        for name in self._asked():
            broker, address = self._brokers[name], self.broker_address(name)
            left = await left_at(broker, address, peers, group, with_delayed=skip_delays)
            found += [] if left is None else [left]
        if not found:
            return ["no consumer of it was ever connected"]
        times_ms = [each.due_ms for each in found if each.due_ms is not None]
        if skip_delays and times_ms and not any(each.unread for each in found):
            wait_ms = min(times_ms) - self.clock.now_ms()
            self.clock.advance(timedelta(milliseconds=max(wait_ms, 0)))
        return [text for each in found for text in each.described()]

    def _clock_moved(self) -> None:
        for name in self._running:
            # Earlier than anything that tests wait for.
            self._brokers[name].waiting.delays.wake_at(0)

    async def _start_all(self) -> None:
        stack = self._stack
        _remove_leftovers_once()
        self._directory = stack.enter_context(temporary_directory())
        await self.start_name_server()
        stack.push_async_callback(self._stop_name_server)
        stack.push_async_callback(self._stop_brokers)
        if self._has_failover:
            etcd = await stack.enter_async_context(own_etcd(self._directory / "etcd"))
            own = failover_settings(self._directory, etcd, self._replica_count + 1)
            self._settings = own | self._settings
        for name in (*self.broker_names, *self._slaves):
            await self.start_broker(name)
        if self._has_failover:
            for name in self.broker_names:
                await self.elected(name)
            await self.copied(timeout_s=_IN_SYNC_TIMEOUT_S)
        loop = asyncio.get_running_loop()
        stack.enter_context(
            # The test may run in another thread.
            self.clock.notifying(lambda: loop.call_soon_threadsafe(self._clock_moved))
        )

    async def _stop_brokers(self) -> None:
        for name in list(self._running):
            await self._running.pop(name).aclose()

    async def _stop_name_server(self) -> None:
        names, self._names = self._names, None
        if names is not None:
            await names.aclose()


@final
class _TemporaryDisk(SystemDisk):
    """For files that are not needed after the test: nothing is synced.

    And never too full, because how full the disk of a developer is has to do with no test.
    """

    def sync(self, descriptor: int) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass

    def space(self, path: Path) -> Space:
        path.stat()
        return Space(1, 1)


@cache
def _remove_leftovers_once() -> None:
    """Tests that were killed cannot tidy up; those of one process need not look again and again."""
    remove_leftovers()


async def _tell(peers: Peers, address: str, header: CreateTopicHeader) -> None:
    request = Command(RequestCode.UPDATE_AND_CREATE_TOPIC, fields=fields_of(header))
    reply = await peers.call(address, request, _TIMEOUT_S)
    if reply.code != ResponseCode.SUCCESS:
        raise RequestRefused(address, reply.code, reply.remark)
