"""`roquet bench transaction-producer`.

The outcome of a transaction and the answers to checks are in its message, as in Apache's:

    batch id 8 | message id 8 | end 1 | answers 20 | random bytes
"""

import asyncio
import random
import struct
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Mapping
from typing import Final, final

from roquet.cli.admin_commands.commands import Commands, Session
from roquet.cli.admin_commands.failures import DONE
from roquet.cli.argument_types import whole_number
from roquet.cli.bench.consuming import share
from roquet.cli.bench.counting import Counts, Lines, Look, average, define_duration, rate
from roquet.client.errors import ClientError
from roquet.client.hooks import TransactionState
from roquet.client.producer.transaction_producer import AsyncTransactionProducer
from roquet.client.received import ReceivedMessage
from roquet.clock import SystemClock
from roquet.protocol.messages.message import Message

_ANSWER_COUNT: Final = 20
_HEAD: Final = struct.Struct(f">QQB{_ANSWER_COUNT}s")
# By the numbers that Java gives them.
_STATES: Final = (TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN)
_COMMIT, _ROLLBACK, _UNKNOWN = range(3)


def define_transaction_producer(commands: Commands) -> None:
    parser = commands.add("transaction-producer", "Send transactional messages.", _transact)
    _define(parser)
    define_duration(parser)


def _define(parser: ArgumentParser) -> None:
    """Apache's flags and defaults."""
    parser.add_argument("-t", "--topic", default="BenchmarkTest", help="%(default)s")
    parser.add_argument(
        "-w", "--threadCount", type=whole_number(1), default=32, metavar="N", help="%(default)s"
    )
    parser.add_argument(
        "-s",
        "--messageSize",
        type=whole_number(_HEAD.size),
        default=2048,
        metavar="N",
        help="%(default)s",
    )
    for flag, name, what in (
        ("-sr", "--sendRollbackRate", "Share of sends that are rolled back."),
        ("-su", "--sendUnknownRate", "Share of sends whose outcome the broker has to check."),
        ("-cr", "--checkRollbackRate", "Share of checks answered with rollback."),
        ("-cu", "--checkUnknownRate", "Share of checks answered with unknown."),
    ):
        parser.add_argument(flag, name, type=share, default=0.0, metavar="SHARE", help=what)
    parser.add_argument("-b", "--batchId", type=whole_number(0), metavar="N")
    parser.add_argument(
        "-i", "--sendInterval", type=whole_number(0), default=0, metavar="MS", help="%(default)s"
    )


async def _transact(session: Session) -> int:
    given, access = session.given, session.access
    counts = Counts()
    script = _Script(session, counts)
    producer = AsyncTransactionProducer(
        access.name_server,
        "benchmark_transaction_producer",
        check=script.answer,
        namespace=access.namespace,
        credentials=access.credentials,
        tls=access.tls,
        compress_over=None,
    )

    async def work() -> None:
        time_s = asyncio.get_running_loop().time
        while True:
            message = script.next_message()
            begin_s = time_s()
            try:
                await producer.send_in_transaction(
                    message,
                    lambda _, message=message: script.end_of(message.body),  # type: ignore[misc]
                    timeout_s=access.timeout_s,
                )
            except ClientError:
                counts.add("failed")
            else:
                counts.add("sent")
            counts.took("time_ms", (time_s() - begin_s) * 1000)
            # Also lets others run, whatever goes wrong.
            await asyncio.sleep(given.sendInterval / 1000)

    async def all_work() -> None:
        async with asyncio.TaskGroup() as group:
            for _ in range(given.threadCount):
                group.create_task(work())

    async with producer:
        await Lines(session, counts, _columns, "sent").print_while(all_work())
    return DONE


@final
class _Script:
    """What each transaction does, and whether brokers check as they should."""

    def __init__(self, session: Session, counts: Counts) -> None:
        given = session.given
        self._given = given
        self._counts = counts
        self._batch_id = given.batchId or SystemClock().now_ms()
        self._message_id = 0
        self._asked: Counter[int] = Counter()

    def next_message(self) -> Message:
        given = self._given
        self._message_id += 1
        end = _drawn(given.sendRollbackRate, given.sendUnknownRate)
        answers = bytes(
            _drawn(given.checkRollbackRate, given.checkUnknownRate) for _ in range(_ANSWER_COUNT)
        )
        head = _HEAD.pack(self._batch_id, self._message_id, end, answers)
        rest = random.randbytes(given.messageSize - _HEAD.size)  # noqa: S311
        return Message(given.topic, head + rest)

    def end_of(self, body: bytes) -> TransactionState:
        return _STATES[_HEAD.unpack_from(body)[2]]

    def answer(self, message: ReceivedMessage) -> TransactionState:
        batch_id, message_id, end, answers = _HEAD.unpack_from(message.body)
        if batch_id != self._batch_id:
            return TransactionState.ROLLBACK  # Of another run.
        counts = self._counts
        counts.add("asked")
        turn = self._asked[message_id]
        self._asked[message_id] += 1
        if end != _UNKNOWN:
            counts.add("unexpected")
            return _STATES[end]
        if turn and answers[min(turn, _ANSWER_COUNT) - 1] != _UNKNOWN:
            counts.add("repeated")  # It was answered before.
        return _STATES[answers[min(turn, _ANSWER_COUNT - 1)]]


def _drawn(rollback_share: float, unknown_share: float) -> int:
    if random.random() < rollback_share:  # noqa: S311
        return _ROLLBACK
    return _UNKNOWN if random.random() < unknown_share else _COMMIT  # noqa: S311


def _columns(begin: Look, end: Look, largest: Mapping[str, float]) -> Mapping[str, float | int]:
    return {
        "Send TPS": rate(begin, end, "sent"),
        "Max RT(ms)": round(largest.get("time_ms", 0)),
        "AVG RT(ms)": average(begin, end, "time_ms", "sent"),
        "Send Failed": int(end["failed"] - begin["failed"]),
        "check": int(end["asked"] - begin["asked"]),
        "unexpectedCheck": int(end["unexpected"] - begin["unexpected"]),
        "duplicatedCheck": int(end["repeated"] - begin["repeated"]),
    }
