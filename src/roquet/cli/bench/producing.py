"""`roquet bench producer` and `batch-producer`."""

import asyncio
import random
import string
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from roquet.cli.admin_commands.commands import Commands, Session
from roquet.cli.admin_commands.failures import DONE
from roquet.cli.argument_types import whole_number
from roquet.cli.bench.counting import TOTAL, Counts, Lines, Look, average, define_duration, rate
from roquet.client.errors import ClientError, SendRefused
from roquet.client.producer.producer import AsyncProducer
from roquet.clock import SystemClock
from roquet.protocol.messages.message import Message

# Concurrent sends with asyncEnable.
_ASYNC_COUNT: Final = 1000
# As long as Apache's: a cluster in trouble is not helped by haste.
_PAUSE_AFTER_FAILURE_S: Final = 3.0


def truth(text: str) -> bool:
    """As Apache's flags have it: `-k true`. Raises ArgumentTypeError."""
    if text.lower() not in ("true", "false"):
        raise ArgumentTypeError(f"{text!r} is not true or false")
    return text.lower() == "true"


def define_producer(commands: Commands) -> None:
    parser = commands.add(
        "producer", "Send as fast as possible, one message per request.", _produce
    )
    _define_messages(parser)
    parser.add_argument("-q", "--messageQuantity", type=whole_number(0), default=0, metavar="N")
    parser.add_argument("-d", "--delayEnable", type=truth, default=False, metavar="true")
    parser.add_argument("-e", "--delayLevel", type=whole_number(1), default=1, metavar="N")
    parser.add_argument("-y", "--asyncEnable", type=truth, default=False, metavar="true")
    define_duration(parser)


def define_batch_producer(commands: Commands) -> None:
    parser = commands.add("batch-producer", "Send batches as fast as possible.", _produce_batches)
    _define_messages(parser)
    parser.add_argument("-b", "--batchSize", type=whole_number(1), default=16, metavar="N")
    define_duration(parser)


def _define_messages(parser: ArgumentParser) -> None:
    """Apache's flags and defaults."""
    parser.add_argument("-t", "--topic", default="BenchmarkTest", help="%(default)s")
    parser.add_argument(
        "-w", "--threadCount", type=whole_number(1), default=64, metavar="N", help="%(default)s"
    )
    parser.add_argument(
        "-s", "--messageSize", type=whole_number(1), default=128, metavar="N", help="%(default)s"
    )
    parser.add_argument("-k", "--keyEnable", type=truth, default=False, metavar="true")
    parser.add_argument("-p", "--propertySize", type=whole_number(0), default=0, metavar="N")
    parser.add_argument("-l", "--tagCount", type=whole_number(0), default=0, metavar="N")
    parser.add_argument("-m", "--msgTraceEnable", type=truth, default=False, metavar="true")


async def _produce(session: Session) -> int:
    given = session.given
    counts = Counts()
    delay_level = given.delayLevel if given.delayEnable else None
    make = _maker(session)
    async with _producer(session, "benchmark_producer") as producer:

        async def send() -> None:
            await producer.send(make(), delay_level=delay_level, timeout_s=session.access.timeout_s)

        work = _Work(counts, send, 1, given.messageQuantity or None)
        workers = _ASYNC_COUNT if given.asyncEnable else given.threadCount
        lines = Lines(session, counts, _producer_columns, "messages", is_ever=True)
        await lines.print_while(work.done_by(workers))
    return DONE


async def _produce_batches(session: Session) -> int:
    given = session.given
    counts = Counts()
    make = _maker(session)
    async with _producer(session, "benchmark_batch_producer") as producer:

        async def send() -> None:
            batch = [make() for _ in range(given.batchSize)]
            await producer.send_batch(batch, timeout_s=session.access.timeout_s)

        work = _Work(counts, send, given.batchSize, None)
        lines = Lines(session, counts, _batch_columns, "messages", is_ever=True)
        await lines.print_while(work.done_by(given.threadCount))
    return DONE


def _producer(session: Session, group: str) -> AsyncProducer:
    access = session.access
    return AsyncProducer(
        access.name_server,
        group,
        namespace=access.namespace,
        credentials=access.credentials,
        tls=access.tls,
        trace=session.given.msgTraceEnable,
        compress_over=None,  # As in Apache's.
    )


def _maker(session: Session) -> Callable[[], Message]:
    """Returns a function that makes messages, all with the same body."""
    given = session.given
    body = "".join(random.choices(string.ascii_letters, k=given.messageSize)).encode()  # noqa: S311
    properties = _properties(given.propertySize)
    clock = SystemClock()

    def make() -> Message:
        now_ms = clock.now_ms() if given.keyEnable or given.tagCount else 0
        return Message(
            given.topic,
            body,
            f"tag{now_ms % given.tagCount}" if given.tagCount else None,
            (str(now_ms // 1000),) if given.keyEnable else (),
            properties,
        )

    return make


def _properties(size: int) -> dict[str, str]:
    """Names and values of at least so many letters together."""
    properties: dict[str, str] = {}
    while sum(len(name) + len(value) for name, value in properties.items()) < size:
        properties[f"prop{len(properties)}"] = f"hello{len(properties)}"
    return properties


class _Work:
    """Sends in a loop and counts the outcomes."""

    def __init__(
        self,
        counts: Counts,
        send: Callable[[], Awaitable[None]],
        size: int,
        quantity: int | None,
    ) -> None:
        """`size` messages a time; `quantity` times, or without end."""
        self._counts = counts
        self._send = send
        self._size = size
        self._left = quantity

    async def done_by(self, worker_count: int) -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(worker_count):
                group.create_task(self._work())

    async def _work(self) -> None:
        counts, time_s = self._counts, asyncio.get_running_loop().time
        while self._left is None or self._left > 0:
            if self._left is not None:
                self._left -= 1
            begin_s = time_s()
            try:
                await self._send()
            except SendRefused:
                counts.add("refused")
                await asyncio.sleep(_PAUSE_AFTER_FAILURE_S)
            except ClientError:
                counts.add("failed")
                counts.add("failed_messages", self._size)
                await asyncio.sleep(_PAUSE_AFTER_FAILURE_S)
            else:
                counts.add("requests")
                counts.add("messages", self._size)
                counts.took("time_ms", (time_s() - begin_s) * 1000)


def _producer_columns(
    begin: Look, end: Look, largest: Mapping[str, float]
) -> Mapping[str, float | int]:
    return {
        TOTAL: int(end["messages"] + end["failed"]),
        "Send TPS": rate(begin, end, "messages"),
        "Max RT(ms)": round(largest.get("time_ms", 0)),
        "Average RT(ms)": average(begin, end, "time_ms", "requests"),
        "Send Failed": int(end["failed"]),
        "Response Failed": int(end["refused"]),
    }


def _batch_columns(
    begin: Look, end: Look, largest: Mapping[str, float]
) -> Mapping[str, float | int]:
    return {
        "Send TPS": rate(begin, end, "requests"),
        "Send MPS": rate(begin, end, "messages"),
        "Max RT(ms)": round(largest.get("time_ms", 0)),
        "Average RT(ms)": average(begin, end, "time_ms", "requests"),
        "Average Message RT(ms)": average(begin, end, "time_ms", "messages"),
        "Send Failed": int(end["failed"] + end["refused"]),
        "Send Message Failed": int(end["failed_messages"]),
    }
