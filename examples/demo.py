"""A cluster in a blink: send, long-poll, look up by key, and read the log as Arrow columns.

Everything runs in this process on free ports of loopback, and is gone at the end. The requests are
the bytes any RocketMQ client sends; `roquet wire decode` would show them.
"""

import asyncio
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

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
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.route import TopicRoute
from roquet.protocol.codes import PullFlag, RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import Header, fields_of, read_header
from roquet.protocol.headers.pulling import PullMessageHeader, QueryMessageHeader
from roquet.protocol.headers.routes import GetRouteHeader
from roquet.protocol.headers.sending import SendMessageHeaderV2, SendMessageReplyHeader
from roquet.protocol.properties import properties_text
from roquet.protocol.record import split_records
from roquet.protocol.record_batch import decode_records

TOPIC = "orders"
console = Console()


class Client:
    """Just enough of a client to show the protocol."""

    def __init__(self, peers: Peers, broker: str) -> None:
        self._peers = peers
        self._broker = broker

    async def call(self, code: RequestCode, header: Header, body: bytes = b"") -> Command:
        command = Command(code, fields=fields_of(header), body=body)
        reply = await self._peers.call(self._broker, command, timeout_s=20)
        assert reply.code == ResponseCode.SUCCESS, reply.remark
        return reply

    async def send(self, number: int) -> SendMessageReplyHeader:
        header = SendMessageHeaderV2(
            producer_group="demo",
            topic=TOPIC,
            default_topic="TBW102",
            default_topic_queue_nums=4,
            queue_id=0,
            sys_flag=0,
            born_timestamp=int(time.time() * 1000),
            flag=0,
            properties=properties_text({"TAGS": "paid", "KEYS": f"order-{number}"}),
        )
        reply = await self.call(RequestCode.SEND_MESSAGE_V2, header, b"order %d" % number)
        return read_header(SendMessageReplyHeader, reply.fields)

    async def pull(self, offset: int) -> Command:
        """Waits up to 15 s for a message, as a push consumer does."""
        header = PullMessageHeader(
            consumer_group="demo-readers",
            topic=TOPIC,
            queue_id=0,
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
    client = Client(peers, f"127.0.0.1:{broker.config.listen_port}")

    waiting = asyncio.create_task(wait_for_first(client))
    for number in range(5):
        receipt = await client.send(number)
        console.print(f"sent order {number}: offset {receipt.queue_offset}, id {receipt.msg_id}")
    console.print(f"long poll brought: {await waiting}")

    await asyncio.sleep(0.1)  # The broker tells the name server about the new topic meanwhile.
    route = await peers.call(
        name_server,
        Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, fields=fields_of(GetRouteHeader(topic=TOPIC))),
        timeout_s=3,
    )
    queues = read_body(TopicRoute, route.body).queue_datas
    console.print(
        f"route of {TOPIC}: {queues[0].write_queue_nums} queues at {queues[0].broker_name}"
    )

    found = split_records((await client.query("order-3")).body)
    console.print(f"by key order-3: {found[0].body.decode()} with tags {found[0].tags}")

    pulled = await client.pull(0)
    columns = decode_records(pulled.body, ["queueOffset", "tags", "keys", "body"])
    table = Table(*columns.schema.names, title=f"{TOPIC} as Arrow columns")
    for row in columns.to_pylist():
        table.add_row(*map(str, row.values()))
    console.print(table)


async def wait_for_first(client: Client) -> str:
    while True:
        try:
            reply = await client.pull(0)
        except AssertionError:
            await asyncio.sleep(0.01)  # The first send makes the topic.
            continue
        return ", ".join(message.body.decode() for message in split_records(reply.body))


if __name__ == "__main__":
    run(main())
