"""Message ids: where a message is stored, and which client made it when.

    offset id   store host (8 or 20) | int64 physical offset
    unique id   IP (4 or 16) | uint16 process | uint32 salt | uint32 month ms | uint16 counter

Both are written as upper-case hex, 32 or 56 characters. A month starts in the local time
zone of the process that makes or reads the id. Clock, zone and process are handed in.
"""

from datetime import datetime, timedelta, tzinfo
from ipaddress import ip_address
from struct import Struct
from typing import Final, NamedTuple, final

from roquet.protocol.errors import BadMessage
from roquet.protocol.host import Address, unpack_host
from roquet.protocol.messages.numbered_ids import NumberedIds

_OFFSET: Final = Struct(">q")
_PROCESS: Final = Struct(">HI")
_MOMENT: Final = Struct(">IH")
_IP_SIZES: Final = (4, 16)
_ID_SIZES: Final = (16, 28)


class OffsetId(NamedTuple):
    store_address: Address
    physical_offset: int


class UniqueId(NamedTuple):
    ip: str
    process: int
    salt: int
    month_ms: int
    counter: int

    def made_at_ms(self, now_ms: int, zone: tzinfo | None = None) -> int:
        """When the id was made, if that was within a month before now."""
        made_at_ms = month_start_ms(now_ms, zone) + self.month_ms
        if made_at_ms <= now_ms:
            return made_at_ms
        return month_start_ms(month_start_ms(now_ms, zone) - 1, zone) + self.month_ms


def offset_id(store_host: bytes, physical_offset: int) -> str:
    """`store_host` in its packed form."""
    return (store_host + _OFFSET.pack(physical_offset)).hex().upper()


def parse_offset_id(text: str) -> OffsetId:
    """Raises BadMessage."""
    data = _id_bytes(text)
    (physical_offset,) = _OFFSET.unpack_from(data, len(data) - _OFFSET.size)
    return OffsetId(unpack_host(data[: -_OFFSET.size]), physical_offset)


def parse_unique_id(text: str) -> UniqueId:
    """Raises BadMessage. Some clients make other ids; those cannot be parsed."""
    data = _id_bytes(text)
    ip_size = len(data) - _PROCESS.size - _MOMENT.size
    process, salt = _PROCESS.unpack_from(data, ip_size)
    month_ms, counter = _MOMENT.unpack_from(data, ip_size + _PROCESS.size)
    return UniqueId(str(ip_address(data[:ip_size])), process, salt, month_ms, counter)


@final
class UniqueIdMaker:
    """Makes the ids of one process. The salt distinguishes processes that share IP and number."""

    __slots__ = (
        "_ip",
        "_month_end_ms",
        "_month_start_ms",
        "_prefix",
        "_process",
        "_zone",
        "id_size",
        "of_moment",
    )

    def __init__(self, ip: bytes, process: int, salt: int, zone: tzinfo | None = None) -> None:
        assert len(ip) in _IP_SIZES
        self._ip = ip
        self._process = process
        self._prefix = (ip + _PROCESS.pack(process & 0xFFFF, salt & 0xFFFFFFFF)).hex().upper()
        self._zone = zone
        self.id_size = len(self._prefix) + 2 * _MOMENT.size
        self._month_start_ms = self._month_end_ms = 0
        # A caller that knows that the moment is still the same may take ids from here.
        self.of_moment = NumberedIds()

    def another(self, salt: int) -> "UniqueIdMaker":
        """For another thread: one maker belongs to one."""
        return UniqueIdMaker(self._ip, self._process, salt, self._zone)

    def make(self, now_ms: int) -> str:
        if now_ms != self.of_moment.now_ms:
            self._note_moment(now_ms)
        return self.of_moment.next()

    def _note_moment(self, now_ms: int) -> None:
        if not self._month_start_ms <= now_ms < self._month_end_ms:
            self._month_start_ms = month_start_ms(now_ms, self._zone)
            self._month_end_ms = next_month_start_ms(now_ms, self._zone)
        stem = f"{self._prefix}{now_ms - self._month_start_ms:08X}"
        self.of_moment.move_to(now_ms, stem.encode())


def month_start_ms(now_ms: int, zone: tzinfo | None = None) -> int:
    """Midnight of the first of the month, in `zone` or else where this process runs."""
    return _timestamp_ms(_first_of_month(now_ms, zone))


def next_month_start_ms(now_ms: int, zone: tzinfo | None = None) -> int:
    # Calendar arithmetic, so that a change of the clocks in between does not matter.
    in_next_month = _first_of_month(now_ms, zone) + timedelta(days=32)
    return _timestamp_ms(in_next_month.replace(day=1))


def _first_of_month(now_ms: int, zone: tzinfo | None) -> datetime:
    now = datetime.fromtimestamp(now_ms // 1000, zone)
    return now.replace(day=1, hour=0, minute=0, second=0)


def _timestamp_ms(moment: datetime) -> int:
    return int(moment.timestamp()) * 1000


def _id_bytes(text: str) -> bytes:
    try:
        data = bytes.fromhex(text)
    except ValueError:
        raise BadMessage(f"message id {text[:100]!r} is not hexadecimal") from None
    if len(data) not in _ID_SIZES:
        raise BadMessage(f"message id {text[:100]!r} is of no known form")
    return data
