"""What a name server stores: routes (105, 217), clusters (106, 901), registrations (103), and its
key-value configs (219).

A registration is usually JSON. Compressed it is one zlib stream of

    int32 size, data version as JSON
    int32 count, of topics; for each: int32 size, text
        "name readQueueNums writeQueueNums perm filterType", from 5.x on " attributes as JSON"
    int32 size, list of filter servers as JSON
    int32 count, of queue mappings; for each: int32 size, JSON      (from 5.x on)

and its topics lose `order` and `topicSysFlag`.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, final

import msgspec
from msgspec import field

from roquet.protocol.bodies.body import Body, DataVersion, always, read_body, write_body
from roquet.protocol.bodies.topics import (
    QueueMapping,
    TopicConfig,
    TopicConfigTable,
)
from roquet.protocol.codes import VERSION_3_0_11, VERSION_5_0_0, Permission
from roquet.protocol.compression import Compression, compress, decompress
from roquet.protocol.errors import BadBody, BadMessage
from roquet.protocol.fields import Int32, Int64
from roquet.protocol.host import Address


class BrokerData(Body, kw_only=True):
    """The brokers that share one name: a master, whose id is 0, and its slaves."""

    broker_addrs: dict[Int64, str] = always({})
    broker_name: str
    cluster: str | None = None
    enable_acting_master: bool = False
    zone_name: str | None = None


class QueueData(Body, kw_only=True):
    """How many queues of a topic a broker name has, and what may be done with them."""

    broker_name: str
    perm: Int32 = always(Permission.READ | Permission.WRITE)
    read_queue_nums: Int32
    topic_sys_flag: Int32 = always(0)
    write_queue_nums: Int32


class TopicRoute(Body, kw_only=True):
    broker_datas: list[BrokerData] = always([])
    filter_server_table: dict[str, list[str]] = always({})  # by the address of a broker
    order_topic_conf: str | None = None  # such as "broker-a:4;broker-b:4"
    queue_datas: list[QueueData] = always([])
    topic_queue_mapping_by_broker: dict[str, QueueMapping] = field(default_factory=dict)


# Brokers have no filter servers any more (`filterServerNums` is 0), but name servers of any version
# keep what is registered as such, and give it out with routes. Clients use it for class filters
# alone. So our brokers register their gRPC endpoint there: grpc://10.0.0.1:8081.
_GRPC_PREFIX: Final = "grpc://"
_ENDPOINT_SIZE_MAX: Final = 300


def endpoint_entry(address: str) -> str:
    """A gRPC endpoint as a broker registers it."""
    return _GRPC_PREFIX + address


def endpoints_in(route: TopicRoute) -> dict[str, Address]:
    """The gRPC endpoints of brokers, by the address of the broker."""
    found = {}
    for broker_address, entries in route.filter_server_table.items():
        for entry in entries:
            endpoint = _read_endpoint(entry)
            if endpoint is not None:
                found[broker_address] = endpoint
    return found


def _read_endpoint(entry: str) -> Address | None:
    host, _, port = entry.removeprefix(_GRPC_PREFIX).rpartition(":")
    is_sound = entry.startswith(_GRPC_PREFIX) and len(entry) <= _ENDPOINT_SIZE_MAX and host
    if not is_sound or not (port.isascii() and port.isdigit() and 0 < int(port) < _PORT_END):
        return None
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


class LostBroker(Body, kw_only=True):
    """A broker that left without unregistering; `lost_since` is the time of its last heartbeat."""

    broker_addr: str
    broker_id: Int64 = always(0)
    broker_name: str
    cluster_name: str
    lost_since: Int64  # in milliseconds since 1970
    reason: str = always("")


class LostBrokerList(Body, kw_only=True):
    """What a name server of ours keeps of them in its file."""

    brokers: list[LostBroker] = always([])


class ClusterInfo(Body, kw_only=True):
    """Reply to 106."""

    broker_addr_table: dict[str, BrokerData] = always({})
    cluster_addr_table: dict[str, list[str]] = always({})
    # Ours, if asked for: Apache's name servers forget who left. A request of our own would not do,
    # because those of 4.9 leave an unknown one unanswered.
    lost_brokers: list[LostBroker] | None = None


class BrokerMemberGroup(Body, kw_only=True):
    broker_addrs: dict[Int64, str] = always({})
    broker_name: str
    cluster: str


class BrokerMemberGroupReply(Body, kw_only=True):
    """Reply to 901."""

    broker_member_group: BrokerMemberGroup | None = None


class KvTable(Body, kw_only=True):
    table: dict[str, str] = always({})


_INT32: Final = Struct(">i")
_PORT_END: Final = 65_536
_ZLIB_FIRST_BYTE: Final = b"x"
_COMPRESSION_LEVEL: Final = 9


class BrokerRegistration(Body, kw_only=True):
    filter_server_list: list[str] = always([])
    topics: TopicConfigTable = always(TopicConfigTable(), name="topicConfigSerializeWrapper")


def read_registration(data: bytes, version: int) -> BrokerRegistration:
    """The body of a 103 from a peer of `version`. Raises BadBody or TooLarge.

    The header has whether it is compressed, but 5.5 brokers set it to false and send zlib.
    So the first byte decides.
    """
    if not data:
        return BrokerRegistration()
    if version < VERSION_3_0_11:
        return BrokerRegistration(topics=read_body(TopicConfigTable, data))
    if data.startswith(_ZLIB_FIRST_BYTE):
        return _read_compressed(data)
    return read_body(BrokerRegistration, data)


def write_compressed_registration(registration: BrokerRegistration, version: int) -> bytes:
    """`version` is the one in the header of the request: readers use it."""
    has_mappings = version >= VERSION_5_0_0
    topics = registration.topics
    parts = [
        _sized(write_body(topics.data_version)),
        _INT32.pack(len(topics.topic_config_table)),
        *(_sized(_topic_text(t, has_mappings)) for t in topics.topic_config_table.values()),
        _sized(write_body(registration.filter_server_list)),
    ]
    if has_mappings:
        mappings = topics.topic_queue_mapping_info_map.values()
        parts.append(_INT32.pack(len(mappings)))
        parts += (_sized(write_body(mapping)) for mapping in mappings)
    return compress(b"".join(parts), Compression.ZLIB, _COMPRESSION_LEVEL)


def _read_compressed(data: bytes) -> BrokerRegistration:
    try:
        sections = _Sections(decompress(data, Compression.ZLIB.sys_flag))
    except BadMessage as error:
        raise BadBody("BrokerRegistration", str(error)) from None
    data_version = read_body(DataVersion, sections.next_sized())
    topics = [_read_topic(text) for text in sections.next_list()]
    filter_servers = read_body(list[str], sections.next_sized())
    mappings = [read_body(QueueMapping, text) for text in sections.next_list_if_any()]
    return BrokerRegistration(
        filter_server_list=filter_servers,
        topics=TopicConfigTable(
            data_version=data_version,
            topic_config_table={topic.topic_name: topic for topic in topics},
            topic_queue_mapping_info_map={mapping.topic: mapping for mapping in mappings},
        ),
    )


def _sized(data: bytes) -> bytes:
    return _INT32.pack(len(data)) + data


def _topic_text(topic: TopicConfig, has_attributes: bool) -> bytes:
    text = (
        f"{topic.topic_name} {topic.read_queue_nums} {topic.write_queue_nums}"
        f" {topic.perm:d} {topic.topic_filter_type}"
    ).encode()
    # A 4.9 name server reads nothing from a text of six fields.
    return b"%b %b" % (text, write_body(topic.attributes)) if has_attributes else text


def _read_topic(data: bytes) -> TopicConfig:
    parts = data.split(b" ", 5)
    if len(parts) < 5:
        raise BadBody("BrokerRegistration", f"{data[:100]!r} does not describe a topic")
    name, read_queue_nums, write_queue_nums, perm, filter_type = parts[:5]
    try:
        values = {
            "topicName": name.decode(),
            "readQueueNums": read_queue_nums.decode(),
            "writeQueueNums": write_queue_nums.decode(),
            "perm": perm.decode(),
            "topicFilterType": filter_type.decode(),
        }
        topic = msgspec.convert(values, TopicConfig, strict=False)
    except (UnicodeDecodeError, msgspec.ValidationError) as error:
        raise BadBody("BrokerRegistration", f"{data[:100]!r}: {error}") from None
    if len(parts) > 5:
        topic.attributes = read_body(dict[str, str], parts[5])
    return topic


@final
class _Sections:
    """Takes one sized piece after another from decompressed bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def next_sized(self) -> bytes:
        start = self._position + 4
        end = start + self._next_int32()
        if not start <= end <= len(self._data):
            raise BadBody("BrokerRegistration", f"section of {end - start} bytes at byte {start}")
        self._position = end
        return self._data[start:end]

    def next_list(self) -> Iterator[bytes]:
        # The count is not trusted: every item is checked against the bytes left.
        return (self.next_sized() for _ in range(self._next_int32()))

    def next_list_if_any(self) -> Iterator[bytes]:
        return self.next_list() if self._position < len(self._data) else iter(())

    def _next_int32(self) -> int:
        end = self._position + 4
        if end > len(self._data):
            raise BadBody("BrokerRegistration", f"{len(self._data)} bytes end too early")
        number: int = _INT32.unpack_from(self._data, self._position)[0]
        self._position = end
        return number
