"""A cluster in a blink: send, long-poll, wait for a delay, look up by key, see Arrow columns.

Everything runs in this process on free ports of loopback, and is gone at the end. Messages are sent
by our producer; what reads them speaks the protocol by hand, to show it.
"""

import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from roquet import AsyncProducer, Message
from roquet.broker.broker import Broker
from roquet.broker.server import serve_broker
from roquet.broker.settings import read_config
from roquet.clock import SystemClock
from roquet.disk import SystemDisk
from roquet.namesrv.config import NameServerConfig
from roquet.namesrv.server import serve_names
from roquet.net.loop import run
from roquet.net.peers import Peers
from roquet.net.router import Router
from roquet.protocol.codes import PullFlag, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header, fields_of
from roquet.protocol.headers.pulling import PullMessageHeader, QueryMessageHeader
from roquet.protocol.record import split_records
from roquet.protocol.record_batch import decode_records

TOPIC = "orders"
console = Console()


class Reader:
    """Just enough of a consumer to show the protocol."""

    def __init__(self, peers: Peers, broker: str) -> None:
        self._peers = peers
        self._broker = broker

    async def call(self, code: RequestCode, header: Header, body: bytes = b"") -> Command:
        command = Command(code, fields=fields_of(header), body=body)
        reply = await self._peers.call(self._broker, command, timeout_s=20)
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        return reply

    async def pull(self, queue_id: int, offset: int) -> Command:
        """Waits up to 15 s for a message, as a push consumer does."""
        header = PullMessageHeader(
            consumer_group="demo-readers",
            topic=TOPIC,
            queue_id=queue_id,
            queue_offset=offset,
            max_msg_nums=32,
            sys_flag=int(PullFlag.SUSPEND | PullFlag.SUBSCRIPTION),
            commit_offset=0,
            suspend_timeout_millis=15_000,
            sub_version=0,
            subscription="paid",
        )
        return await self.call(RequestCode.PULL_MESSAGE, header)

    async def query(self, key: str) -> Command:
        header = QueryMessageHeader(
            topic=TOPIC, key=key, max_num=8, begin_timestamp=0, end_timestamp=2**62
        )
        return await self.call(RequestCode.QUERY_MESSAGE, header)


async def main() -> None:
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="roquet-demo-") as name:
        directory = Path(name)
        clock, disk = SystemClock(), SystemDisk()
        names_config = NameServerConfig(port=0, kv_config_path=directory / "kv.json")
        async with serve_names(names_config, clock, disk) as names:
            name_server = f"127.0.0.1:{names.config.port}"
            config, _ = read_config({"namesrvAddr": name_server}, directory / "store")
            async with serve_broker(replace(config, listen_port=0), clock, disk) as broker:
                took_ms = (time.perf_counter() - begin) * 1000
                console.print(f"name server at {name_server} and broker up in {took_ms:.0f} ms")
                peers = Peers(Router(None, ()), clock)
                await show(peers, name_server, broker)
                await peers.close()


async def show(peers: Peers, name_server: str, broker: Broker) -> None:
    reader = Reader(peers, f"127.0.0.1:{broker.config.listen_port}")
    async with AsyncProducer(name_server, "demo") as producer:
        queue = None
        for number in range(5):
            order = Message(TOPIC, b"order %d" % number, tags="paid", keys=(f"order-{number}",))
            receipt = await producer.send(order, queue=queue)
            queue = receipt.queue
            console.print(f"sent order {number}: offset {receipt.queue_offset} of {queue}")
        assert queue is not None
        await producer.send(Message(TOPIC, b"a reminder", tags="paid"), queue=queue, delay=1)

        pulled = await reader.pull(queue.queue_id, 0)
        columns = decode_records(pulled.body, ["queueOffset", "tags", "keys", "body"])
        table = Table(*columns.schema.names, title=f"{TOPIC} as Arrow columns")
        for row in columns.to_pylist():
            table.add_row(*map(str, row.values()))
        console.print(table)

        found = split_records((await reader.query("order-3")).body)
        console.print(f"by key order-3: {found[0].body.decode()} with tags {found[0].tags}")

        begin = time.perf_counter()
        (late,) = split_records((await reader.pull(queue.queue_id, 5)).body)
        waited_s = time.perf_counter() - begin
        console.print(f"a long poll brought {late.body.decode()!r} after {waited_s:.1f} s")


if __name__ == "__main__":
    run(main())
