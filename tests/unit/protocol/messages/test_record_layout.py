"""The numbers that compiled code goes by are those of the record that is drawn in Python."""

import re
from itertools import accumulate
from pathlib import Path
from struct import Struct, calcsize

import pytest

from roquet.protocol import host
from roquet.protocol.messages import properties, record
from roquet.protocol.messages.message import SysFlag

DECLARED = Path(record.__file__).with_name("record_layout.pxd").read_text()
NUMBERS = {
    name: int(value, 0) << int(shift or 0)
    for name, value, shift in re.findall(
        r"^    ([A-Z]\w+) = (-?(?:0x)?[0-9A-Fa-f]+)(?: << (\d+))?(?: +#.*)?$",
        DECLARED,
        re.MULTILINE,
    )
}
# In the order of the file, each with the member of the layout that lies there.
PLACES = (
    "MAGIC_AT",
    "BODY_CRC_AT",
    "QUEUE_ID_AT",
    "FLAG_AT",
    "QUEUE_OFFSET_AT",
    "PHYSICAL_OFFSET_AT",
    "SYS_FLAG_AT",
    "BORN_TIMESTAMP_AT",
    "BORN_HOST_AT",
    "STORE_TIMESTAMP_AT",
    "STORE_HOST_AT",
    "RECONSUME_TIMES_AT",
    "PREPARED_OFFSET_AT",
    "BODY_SIZE_AT",
    "BODY_AT",
)
HOSTS_AT = ("BORN_HOST_AT", "STORE_HOST_AT")
OTHERS = {
    "MAGIC_V1": record.MAGIC_V1,
    "MAGIC_V2": record.MAGIC_V2,
    "TOPIC_SIZE_MAX_V1": record.TOPIC_SIZE_MAX_V1,
    "TOPIC_SIZE_MAX_V2": record.TOPIC_SIZE_MAX_V2,
    "PROPERTIES_SIZE_MAX": properties.PROPERTIES_SIZE_MAX,
    "BODY_SIZE_MAX": record.BODY_SIZE_MAX,
    "LONG_HOST_SHIFT": host.HOST_SIZE_V6 - host.HOST_SIZE_V4,
    "PROPERTIES_SIZE_WIDTH": calcsize(">h"),
    "RECORD_SIZE_MIN": record.LAYOUTS[0].size + calcsize(">bh"),
    "COMPRESSED": SysFlag.COMPRESSED.value,
    "BORN_HOST_V6": SysFlag.BORN_HOST_V6.value,
    "STORE_HOST_V6": SysFlag.STORE_HOST_V6.value,
    "INNER_BATCH": SysFlag.INNER_BATCH.value,
    "ADDRESS_BITS": SysFlag.BORN_HOST_V6.value | SysFlag.STORE_HOST_V6.value,
    "HOST_SIZE_V4": host.HOST_SIZE_V4,
    "HOST_SIZE_V6": host.HOST_SIZE_V6,
    "SEPARATOR": record.checksum_of(b"")[-1],
    "CHECKSUM_MARK_SIZE": len(record.CHECKSUM_NAME) + 1,
    "CHECKSUM_DIGITS": len(record.checksum_of(b"")) - len(record.CHECKSUM_NAME) - 2,
    "CHECKSUM_SIZE": record.CHECKSUM_SIZE,
}


def test_every_number_is_compared_with_something() -> None:
    assert set(NUMBERS) == {*PLACES, *OTHERS}


@pytest.mark.parametrize("layout", record.LAYOUTS, ids=lambda layout: str(layout.format))
def test_members_lie_where_the_layout_has_them(layout: Struct) -> None:
    members = re.findall(r"\d*[a-z]", layout.format)
    ends = list(accumulate(calcsize(f">{member}") for member in members))
    shift = 0
    for name, place in zip(PLACES, ends, strict=True):
        assert NUMBERS[name] + shift == place, name
        if name in HOSTS_AT and members[ends.index(place) + 1] == f"{host.HOST_SIZE_V6}s":
            shift += NUMBERS["LONG_HOST_SHIFT"]


@pytest.mark.parametrize("name", OTHERS)
def test_limits_and_flags_are_the_same(name: str) -> None:
    assert NUMBERS[name] == OTHERS[name]
