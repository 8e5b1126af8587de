"""Rows that are requests of their own: what is delayed or in a transaction cannot be in a batch."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa

from roquet.client.errors import BadArgument
from roquet.client.producer.delay import Delay
from roquet.client.producer.producer import AsyncProducer
from roquet.client.producer.queue_choice import OrderKey
from roquet.pipeline.options.kinds import duration
from roquet.pipeline.sink.delivering import Patience, attempted
from roquet.pipeline.sink.pace import Pace
from roquet.pipeline.sink.rows import Rows, row_error
from roquet.protocol.messages.message import KEY_SEPARATOR, Message
from roquet.protocol.messages.properties import parse_properties

_FIRST_LEVEL: Final = 1


class SingleRow(NamedTuple):
    number: int  # in the partition
    message: Message
    order_key: OrderKey | None = None
    delay: Delay | None = None
    delay_level: int | None = None


def single_rows(
    rows: pa.RecordBatch, chosen: Rows, place: str, first_row: int
) -> Iterator[SingleRow]:
    """`rows` are checked, by the encoder too. Raises BadRow for a delay that is none."""
    for row, values in zip(chosen, rows.take(pa.array(chosen)).to_pylist(), strict=True):
        number = first_row + int(row)
        try:
            delay, level = delay_of(values), level_of(values)
        except ValueError as error:
            column = "delay" if values.get("delay") is not None else "delayLevel"
            raise row_error(place, number, column, str(error)) from None
        yield SingleRow(number, message_of(values), values.get("orderKey"), delay, level)


def level_of(values: dict[str, Any]) -> int | None:
    """Raises ValueError with what is wrong."""
    level: int | None = values.get("delayLevel")
    if level is not None and level < _FIRST_LEVEL:
        raise ValueError(f"there is no level {level}; the first one is {_FIRST_LEVEL}")
    return level


def delay_of(values: dict[str, Any]) -> Delay | None:
    """Raises ValueError with what is wrong."""
    delay: str | timedelta | datetime | None = values.get("delay")
    if not isinstance(delay, str):
        return delay
    if delay.strip().isdecimal():
        raise ValueError(f"{delay!r} has no unit; write '{delay.strip()}s' for seconds")
    try:
        return duration.read(delay.strip())  # type: ignore[no-any-return]
    except ValueError as error:
        raise ValueError(f"{delay!r} is not {error}") from None


def message_of(values: dict[str, Any]) -> Message:
    body = values["body"]
    properties = values.get("properties")
    if isinstance(properties, str):
        properties = parse_properties(properties)
    return Message(
        values["topic"],
        body.encode() if isinstance(body, str) else body,
        values.get("tags"),
        tuple((values.get("keys") or "").split(KEY_SEPARATOR)) if values.get("keys") else (),
        dict(properties or {}),
        values.get("flag") or 0,
    )


async def send_row(
    producer: AsyncProducer, row: SingleRow, place: str, patience: Patience, pace: Pace
) -> None:
    """Returns when a broker has it. Raises BadRow, or SendError when time is up."""

    async def attempt(_count: int) -> None:
        await producer.send(
            row.message,
            order_key=row.order_key,
            delay=row.delay,
            delay_level=row.delay_level,
            timeout_s=patience.request_s,
        )

    await pace.admit(1)
    try:
        await attempted(attempt, patience)
    except BadArgument as error:
        raise row_error(place, row.number, "properties", str(error)) from None
