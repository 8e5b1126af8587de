"""What the protocol costs: microseconds per message on one core, and columns per second.

Process time, best of many short runs, because other programs use the machine too. Numbers
are ratios: compare them within one run. Goals are for an idle core.
"""

from collections.abc import Callable
from functools import partial
from time import process_time
from timeit import Timer

import pyarrow as pa
from msgspec import Raw

from roquet.protocol.codes import RequestCode
from roquet.protocol.command import Command, decode_command, encode_command, reply_to
from roquet.protocol.fields import fields_of, header_reader
from roquet.protocol.frame import SERIALIZER_BINARY, SERIALIZER_JSON
from roquet.protocol.frame_decoder import FrameDecoder
from roquet.protocol.headers.messages import (
    SendMessageHeaderV2,
    SendMessageReplyHeader,
)
from roquet.protocol.host import pack_host
from roquet.protocol.messages.drafts import RecordDraft
from roquet.protocol.messages.properties import parse_properties, properties_text
from roquet.protocol.messages.record import read_record
from roquet.protocol.record_columns import (
    PropertiesForm,
    decode_records,
    encode_batches,
    find_records,
)
from roquet.protocol.templates.send_reply import SendReplyTemplate

REPEATS = 25
CALLS = 2000
CHUNK_COUNT = 10_000
CHUNK_REPEATS = 60
LARGE = 16 * 1024 * 1024

BODY = bytes(range(128))
PROPERTIES = {
    "KEYS": "order-000017",
    "UNIQ_KEY": "0A0907010000000000000000000000FF",
    "WAIT": "true",
    "TAGS": "paid",
    "CLUSTER": "DefaultCluster",
}
TEXT = properties_text(PROPERTIES)
# Nine properties, and a body that makes records of 348 bytes.
CHUNK_PROPERTIES = {
    **PROPERTIES,
    "customer": "c-0001234",
    "region": "eu-west",
    "channel": "web",
    "priority": "4",
}
CHUNK_TEXT = properties_text(CHUNK_PROPERTIES)
CHUNK_TOPIC = "orders_topic"
CHUNK_BODY = BODY[: 348 - 88 - 1 - len(CHUNK_TOPIC) - 2 - len(CHUNK_TEXT)]
BATCH_SIZE_MAX = 4 * 1024 * 1024
BATCH_COUNT_MAX = 65536
HOST = pack_host("127.0.0.1", 10911)
RAW_COLUMNS = (
    *("topic", "queueId", "queueOffset", "body", "bornTimestamp", "storeTimestamp"),
    *("reconsumeTimes", "flag", "sysFlag", "physicalOffset", "properties"),
)
NAMED_COLUMNS = (*RAW_COLUMNS, "tags", "keys", "msgId")


def main() -> None:
    print_costs()
    print_rates()


def print_costs() -> None:
    print(f"{'per message':44}{'us':>8}{'goal':>8}")
    for name, run, goal in (
        ("send request, JSON: cut, decode, type", request_reading(SERIALIZER_JSON), 2.5),
        ("send request, binary: cut, decode, type", request_reading(SERIALIZER_BINARY), None),
        ("send reply, from the template", template_filling(), 1.0),
        ("send reply, built and encoded", reply_writing(), None),
        ("record: draft and write", record_writing(), 2.5),
        ("record: read", partial(read_record, record(0)), None),
        ("properties: text to map", partial(parse_properties, TEXT), None),
        ("properties: map to text", partial(properties_text, PROPERTIES), None),
    ):
        cost_us = min(Timer(run, timer=process_time).repeat(REPEATS, CALLS)) / CALLS * 1e6
        print(f"{name:44}{cost_us:8.2f}{goal or '':>8}")


def print_rates() -> None:
    chunk = b"".join(map(record, range(CHUNK_COUNT)))
    # A reader frees chunk after chunk, and that is how malloc learns to keep memory. Without
    # it, each decode would begin with page faults.
    bytearray(LARGE)
    decode = partial(decode_records, chunk, check_bodies=False)
    decode_map = partial(decode, NAMED_COLUMNS, properties=PropertiesForm.MAP)
    rows = decode(NAMED_COLUMNS, properties=PropertiesForm.STRING)
    encode = partial(encode_batches, size_max=BATCH_SIZE_MAX, count_max=BATCH_COUNT_MAX)
    print(f"\n{f'columns, {len(chunk) // CHUNK_COUNT}-byte records':44}{'M/s':>8}{'goal':>8}")
    for name, run, goal in (
        ("fixed fields, topic, body, properties", partial(decode, RAW_COLUMNS), 5.0),
        ("  with tags, keys, msgId", partial(decode, NAMED_COLUMNS), 2.5),
        ("  with properties as a map", decode_map, 1.5),
        ("  with the CRC of each body checked", partial(decode_map, check_bodies=True), None),
        ("  where no record is of the topic", partial(decode_map, topics=("another",)), None),
        ("starts of a slice of a log", slice_finding(chunk), None),
        (
            "batch: body, tags, keys, id",
            partial(encode, without_properties(rows), **ids_of(rows)),
            3.0,
        ),
        ("  with nine properties as a text", partial(encode, rows), None),
        ("  with nine properties as a map", partial(encode, decode_map()), None),
    ):
        chunk_s = min(Timer(run, timer=process_time).repeat(CHUNK_REPEATS, 1))
        print(f"{name:44}{CHUNK_COUNT / chunk_s / 1e6:8.2f}{goal or '':>8}")


def slice_finding(chunk: bytes) -> Callable[[], object]:
    return partial(find_records, chunk, base=0, begin=100, end=len(chunk), anchor=0)


def without_properties(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.select(["body", "tags", "keys"])


def ids_of(rows: pa.RecordBatch) -> dict[str, dict[str, pa.Array]]:
    return {"extra": {"UNIQ_KEY": rows.column("msgId")}}


def request_reading(serializer: int) -> Callable[[], SendMessageHeaderV2]:
    header = SendMessageHeaderV2(
        producer_group="bench-producers",
        topic="orders_topic",
        default_topic="TBW102",
        default_topic_queue_nums=4,
        queue_id=3,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        flag=0,
        properties=TEXT,
        reconsume_times=0,
    )
    request = Command(
        RequestCode.SEND_MESSAGE_V2,
        17,
        fields=fields_of(header),
        body=BODY,
        serializer=serializer,
    )
    data = encode_command(request)
    frames = FrameDecoder()
    read: Callable[[Raw], SendMessageHeaderV2] = header_reader(SendMessageHeaderV2)

    def run() -> SendMessageHeaderV2:
        (frame,) = frames.cut(data)
        return read(decode_command(frame).fields)

    return run


def template_filling() -> Callable[[], bytes]:
    template = SendReplyTemplate(pack_host("127.0.0.1", 10911), "DefaultRegion", is_traced=True)
    return partial(template.fill, 17, [4096], 3, 123_456)


def reply_writing() -> Callable[[], bytes]:
    request = Command(RequestCode.SEND_MESSAGE_V2, 17)

    def run() -> bytes:
        header = SendMessageReplyHeader(
            msg_id="7F00000100002A9F0000000000001000",
            queue_id=3,
            queue_offset=123_456,
            region_id="DefaultRegion",
            is_traced=True,
        )
        return encode_command(reply_to(request, header=header))

    return run


def record_writing() -> Callable[[], None]:
    buffer = bytearray(1024)
    properties = TEXT.encode()
    return lambda: draft(BODY, properties).write(buffer, 0, 17, 4096, 1_700_000_000_001)


def draft(body: bytes, properties: bytes) -> RecordDraft:
    return RecordDraft(
        queue_id=3,
        flag=0,
        sys_flag=0,
        born_timestamp=1_700_000_000_000,
        born_host=HOST,
        store_host=HOST,
        body=body,
        topic=CHUNK_TOPIC.encode(),
        properties=properties,
    )


def record(number: int) -> bytes:
    text = CHUNK_TEXT.replace("order-000017", f"order-{number:06}")
    drafted = draft(CHUNK_BODY, text.encode())
    data = bytearray(drafted.size)
    drafted.write(data, 0, number, number * drafted.size, 1_700_000_000_001)
    return bytes(data)


if __name__ == "__main__":
    main()
