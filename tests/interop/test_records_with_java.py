"""Java's own decoder reads the records that we write, as it reads the body of a pull reply."""

from collections.abc import Callable
from zlib import crc32

import pytest

from roquet.protocol.compression import Compression, compress
from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.message import SysFlag
from roquet.protocol.messages.message_id import offset_id
from roquet.protocol.messages.properties import properties_text
from roquet.protocol.messages.record import CRC_MASK, MAGIC_V1, MAGIC_V2
from tests.support.jars import ApacheVersion
from tests.support.java_client import Received, decode_records
from tests.support.java_driver import JavaDriver

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

PROPERTIES = {"TAGS": "red", "KEYS": "k1 k2", "city": "Köln", "UNIQ_KEY": "0A0B"}
BODY = b"0123456789" * 100

# IPv6 as Java writes it.
V4, V6 = "10.1.2.3", "2001:db8:0:0:0:0:0:1"


@pytest.mark.parametrize(
    ("born_ip", "store_ip", "address_bits"),
    [
        (V4, V4, 0),
        (V6, V4, SysFlag.BORN_HOST_V6),
        (V4, V6, SysFlag.STORE_HOST_V6),
        (V6, V6, SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6),
    ],
)
def test_java_reads_every_field_of_a_record(
    java: JavaDriver, born_ip: str, store_ip: str, address_bits: int
) -> None:
    written = record(born_host=pack_host(born_ip, 1), store_host=pack_host(store_ip, 10911))
    assert decode_records(java, written) == [
        Received(
            topic="orders",
            body=BODY,
            flag=-7,
            properties=PROPERTIES,
            queue_id=3,
            queue_offset=2**40,
            physical_offset=2**41,
            store_size=len(written),
            body_crc=crc32(BODY) & CRC_MASK,
            sys_flag=address_bits,
            born_timestamp=1_700_000_000_000,
            born_host=f"{born_ip}:1",
            store_timestamp=1_700_000_000_001,
            store_host=f"{store_ip}:10911",
            reconsume_times=2,
            prepared_transaction_offset=2**42,
            message_id="0A0B",
            offset_id=offset_id(pack_host(store_ip, 10911), 2**41),
        )
    ]


@pytest.mark.parametrize("compression", Compression)
def test_java_reads_bodies_that_we_compressed(java: JavaDriver, compression: Compression) -> None:
    compressed = compress(BODY, compression)
    (read,) = decode_records(java, record(body=compressed, sys_flag=compression.sys_flag))
    assert read.body == BODY
    assert read.body_crc == crc32(compressed) & CRC_MASK


def test_java_reads_records_one_after_the_other_and_passes_over_our_checksum(
    java: JavaDriver,
) -> None:
    first, second = decode_records(java, record(has_checksum=True) + record(body=b"second"))
    assert len(first.properties.pop("__CRC32#")) == 10
    assert first.properties == second.properties == PROPERTIES
    assert (first.body, second.body) == (BODY, b"second")


def test_java_5_reads_long_topics(java_drivers: Callable[[ApacheVersion], JavaDriver]) -> None:
    written = record(topic=b"t" * 200, magic=MAGIC_V2)
    (read,) = decode_records(java_drivers(ApacheVersion.V5_5_0), written)
    assert (read.topic, read.body, read.properties) == ("t" * 200, BODY, PROPERTIES)


def record(
    *,
    topic: bytes = b"orders",
    body: bytes = BODY,
    sys_flag: int = 0,
    born_host: bytes = pack_host(V4, 1),
    store_host: bytes = pack_host(V4, 10911),
    magic: int = MAGIC_V1,
    has_checksum: bool = False,
) -> bytes:
    draft = RecordDraft(
        queue_id=3,
        flag=-7,
        sys_flag=sys_flag,
        born_timestamp=1_700_000_000_000,
        born_host=born_host,
        store_host=store_host,
        body=body,
        topic=topic,
        properties=properties_text(PROPERTIES).encode(),
        reconsume_times=2,
        prepared_transaction_offset=2**42,
        magic=magic,
        has_checksum=has_checksum,
    )
    buffer = bytearray(draft.size)
    draft.write(
        buffer,
        0,
        queue_offset=2**40,
        physical_offset=2**41,
        store_timestamp=1_700_000_000_001,
    )
    return bytes(buffer)
