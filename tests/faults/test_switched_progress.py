"""A switch while the slave's log is behind what its master's tables say.

Messages wait at a master and its slave: for their time, or for the end of their transaction. Then
the link between the two is cut, and nothing else: the slave goes on copying tables. The master
delivers, is lost, and the slave is promoted. How far the master had come is true for the log of the
master alone, so the new master has to deliver all of it once more, and ask about what is open.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from roquet import AsyncTransactionProducer, ReceivedMessage, TransactionState
from roquet.clock import SystemClock
from roquet.net.addresses import split_address
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.offsets import ConsumerOffsetTable
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.headers.groups import UpdateConsumerOffsetHeader
from roquet.protocol.headers.messages import EndTransactionHeader
from roquet.protocol.messages.message_id import parse_offset_id
from roquet.protocol.names import HALF_TOPIC
from tests.support.blocking_peer import BlockingPeer
from tests.support.command_line import roquet
from tests.support.common_requests import common_send_header, delivered, receipt_of, send_each
from tests.support.eventually import wait_until
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.tcp_proxy import PROXY_HOST, TcpProxy
from tests.support.topics import create_topic, has_topic

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replication-2")]

BROKER_NAME: Final = "broker-a"
TOPIC: Final = "orders"
MARKS: Final = "marks"
GROUP: Final = "payers"
PATIENCE_S: Final = 60.0
COUNT: Final = 30
# Long enough to send, copy and cut before the first one is due.
DELAY_S: Final = 4
COMMIT: Final = 8
SETTINGS: Final = {
    "haSendHeartbeatInterval": "500",
    "messageDelayLevel": f"{DELAY_S}s",
    "transactionTimeOut": "500",
    "transactionCheckInterval": "200",
    "transactionCheckMax": "1000",
}


class Switch:
    """From the moment in which both have everything to that in which the slave is the master."""

    def __init__(self, names: str, master: OurBroker, slave: OurBroker, link: TcpProxy) -> None:
        self.names = names
        self.master = master
        self.slave = slave
        self._link = link

    async def prepare(self) -> None:
        def prepared() -> None:
            for topic in (TOPIC, MARKS):
                create_topic(self.master.address, topic)
            wait_until(lambda: has_topic(self.slave.address, MARKS), PATIENCE_S)

        await asyncio.to_thread(prepared)

    async def cut_link(self) -> None:
        """When the slave has all that was sent so far."""
        both = self.master, self.slave
        await self.until(lambda: len({log_end(each) for each in both}) == 1)
        self._link.refuse()
        self._link.cut()

    async def promote(self) -> None:
        """When the slave has copied tables at least once from beginning to end."""

        def promoted() -> None:
            for mark in (1, 2):
                commit(self.master, mark)
                wait_until(lambda: committed(self.slave, MARKS, "marking") == mark, PATIENCE_S)  # noqa: B023  Awaited at once.
            self.master.kill()
            wait_until(lambda: self.slave.runtime_info.get("followedMaster") == "", PATIENCE_S)
            done = roquet("broker", "promote", self.slave.address, "-n", self.names)
            assert done.exit_code == 0, done.stderr

        await asyncio.to_thread(promoted)

    async def until(self, condition: Callable[[], object]) -> None:
        await asyncio.to_thread(wait_until, condition, PATIENCE_S)


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[Switch]:
    with ExitStack() as running:
        names = running.enter_context(OurNameServer(tmp_path / "names"))
        secret = tmp_path / "secret"
        secret.write_text("a secret of the brokers of one name\n")
        shared = {**SETTINGS, "replication.secretFile": str(secret)}
        master = OurBroker(
            tmp_path / "master",
            names.address,
            broker_name=BROKER_NAME,
            configuration={**shared, "brokerRole": "ASYNC_MASTER"},
        )
        host, port = split_address(master.address)
        of_slave = {
            "brokerRole": "SLAVE",
            "brokerId": "1",
            "haMasterAddress": f"{PROXY_HOST}:{port + 1}",
        }
        slave = OurBroker(
            tmp_path / "slave",
            names.address,
            broker_name=BROKER_NAME,
            configuration={**shared, **of_slave},
        )
        async with TcpProxy(PROXY_HOST, f"{host}:{port + 1}") as link:
            for broker in (master, slave):
                await asyncio.to_thread(broker.start)
                running.callback(broker.kill)
            yield Switch(names.address, master, slave, link)


def log_end(broker: OurBroker) -> int:
    return int(broker.runtime_info.get("commitLogMaxOffset", -1))


def commit(broker: OurBroker, offset: int) -> None:
    header = UpdateConsumerOffsetHeader(
        consumer_group="marking", topic=MARKS, queue_id=0, commit_offset=offset
    )
    with BlockingPeer(broker.address) as peer:
        assert peer.call(RequestCode.UPDATE_CONSUMER_OFFSET, header).code == ResponseCode.SUCCESS


def committed(broker: OurBroker, topic: str, group: str) -> int:
    with BlockingPeer(broker.address) as peer:
        reply = peer.call(RequestCode.GET_ALL_CONSUMER_OFFSET)
    table = read_body(ConsumerOffsetTable, reply.body).offset_table
    return table.get(f"{topic}@{group}", {}).get(0, 0)


def names_of(kind: str) -> list[bytes]:
    return [f"{kind} {number}".encode() for number in range(COUNT)]


async def test_what_only_the_lost_master_delivered_is_delivered_by_its_successor(
    brokers: Switch,
) -> None:
    await brokers.prepare()
    levels, timers = names_of("level"), names_of("timer")
    await asyncio.to_thread(send_each, brokers.master.address, TOPIC, levels, "DELAY\x011")
    await asyncio.to_thread(
        send_each, brokers.master.address, TOPIC, timers, f"TIMER_DELAY_SEC\x01{DELAY_S}"
    )
    await brokers.cut_link()
    assert not delivered(brokers.master.address, TOPIC)
    await brokers.until(lambda: len(delivered(brokers.master.address, TOPIC)) == 2 * COUNT)
    await brokers.promote()
    await brokers.until(lambda: set(delivered(brokers.slave.address, TOPIC)) == {*levels, *timers})
    assert set(delivered(brokers.slave.address, TOPIC).values()) == {1}


def begin(peer: BlockingPeer, name: bytes) -> EndTransactionHeader:
    """A half message, and what commits it."""
    properties = {
        "TRAN_MSG": "true",
        "PGROUP": GROUP,
        "UNIQ_KEY": name.decode().replace(" ", "-"),
        "WAIT": "true",
    }
    text = "\x02".join(f"{key}\x01{value}" for key, value in properties.items())
    # One that is older than messages are kept would be given up.
    now_ms = SystemClock().now_ms()
    header = replace(
        common_send_header(TOPIC),
        properties=text,
        sys_flag=4,
        born_timestamp=now_ms,
    )
    receipt = receipt_of(peer.call(RequestCode.SEND_MESSAGE_V2, header, name))
    return EndTransactionHeader(
        producer_group=GROUP,
        tran_state_table_offset=receipt.queue_offset,
        commit_log_offset=parse_offset_id(receipt.msg_id).physical_offset,
        commit_or_rollback=COMMIT,
        msg_id="",
    )


async def test_transactions_that_only_the_lost_master_dealt_with_are_asked_about_again(
    brokers: Switch,
) -> None:
    await brokers.prepare()
    ended, pending = names_of("ended"), names_of("pending")

    def begun() -> list[EndTransactionHeader]:
        with BlockingPeer(brokers.master.address) as peer:
            return [begin(peer, name) for name in (*ended, *pending)]

    ends = await asyncio.to_thread(begun)
    await brokers.cut_link()

    def end() -> None:
        with BlockingPeer(brokers.master.address) as peer:
            for header in ends[:COUNT]:
                assert peer.call(RequestCode.END_TRANSACTION, header).code == ResponseCode.SUCCESS

    await asyncio.to_thread(end)
    assert set(delivered(brokers.master.address, TOPIC)) == set(ended)
    # All are dealt with: over, or put again, because their producer is not there to be asked.
    await brokers.until(
        lambda: committed(brokers.master, HALF_TOPIC, "CID_RMQ_SYS_TRANS") >= 2 * COUNT
    )
    await brokers.promote()
    asked: set[bytes] = set()

    def check(message: ReceivedMessage) -> TransactionState:
        asked.add(message.body)
        return TransactionState.COMMIT

    async with AsyncTransactionProducer(brokers.names, GROUP, check=check):
        await brokers.until(
            lambda: set(delivered(brokers.slave.address, TOPIC)) == {*ended, *pending}
        )
    assert asked == {*ended, *pending}
    assert set(delivered(brokers.slave.address, TOPIC).values()) == {1}
