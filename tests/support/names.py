"""A name server under test, and the requests that brokers send to it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from roquet.namesrv.state import NameServer
from roquet.protocol.bodies.body import DataVersion, write_body
from roquet.protocol.bodies.name_server import BrokerRegistration
from roquet.protocol.bodies.topics import TopicConfig, TopicConfigTable
from roquet.protocol.codes import VERSION_OURS, RequestCode
from roquet.protocol.command import Command
from roquet.protocol.fields import fields_text
from tests.support.fake_clock import FakeClock
from tests.support.raw_peer import RawPeer

BROKER = {
    "clusterName": "c",
    "brokerName": "a",
    "brokerId": "0",
    "brokerAddr": "10.0.0.1:10911",
}
SLAVE = {**BROKER, "brokerId": "1", "brokerAddr": "10.0.0.2:10911"}


@dataclass
class Names:
    server: NameServer
    clock: FakeClock
    kv_config_path: Path

    async def connect(self) -> RawPeer:
        return await RawPeer.connect(self.server.config.port)


def request(
    code: int, fields: Mapping[str, str], body: bytes = b"", version: int = VERSION_OURS
) -> Command:
    return Command(code, fields=fields_text(fields), body=body, version=version)


def registration(
    broker: Mapping[str, str] = BROKER,
    *,
    body: bytes | None = None,
    version: int = VERSION_OURS,
    **fields: str,
) -> Command:
    """The request that registers `broker` with the topics "t" and "u"."""
    ha_address = broker["brokerAddr"].replace("10911", "10912")
    return request(
        RequestCode.REGISTER_BROKER,
        {**broker, "haServerAddr": ha_address, **fields},
        write_body(two_topics()) if body is None else body,
        version,
    )


def two_topics() -> BrokerRegistration:
    table = {name: TopicConfig(topic_name=name, read_queue_nums=4) for name in ("t", "u")}
    version = DataVersion(counter=3, timestamp=1)
    return BrokerRegistration(
        topics=TopicConfigTable(data_version=version, topic_config_table=table)
    )
