"""Commands of mqadmin that measure how long sends take: checkMsgSendRT and clusterRT."""

from collections.abc import Sequence
from itertools import cycle, islice
from statistics import fmean
from time import monotonic
from typing import Final, NamedTuple

from roquet.cli.admin_commands.commands import Session
from roquet.cli.admin_commands.failures import DONE, FAILED
from roquet.cli.argument_types import whole_number
from roquet.cli.mqadmin.declaring import TOPIC, Command, Flag, every, masters_where, own
from roquet.client.errors import ClientError
from roquet.client.producer.producer import AsyncProducer
from roquet.client.queue_ref import QueueRef
from roquet.protocol.messages.message import Message
from roquet.reporting import Report, ReportTable

_GROUP: Final = "roquet-cli"
_AMOUNT: Final = Flag("a", "amount", kind=whole_number(1), default=100)
_SIZE: Final = Flag("s", "size", kind=whole_number(1), default=128)
_INTERVAL_S: Final = 10


class _TimedSend(NamedTuple):
    queue: QueueRef
    took_ms: float
    problem: str | None


def average_ms(sends: Sequence[_TimedSend]) -> float | None:
    """Without the first, which connects; None if it is the only one."""
    return fmean(each.took_ms for each in sends[1:]) if len(sends) > 1 else None


def _producer(session: Session, namespace: str | None) -> AsyncProducer:
    access = session.access
    return AsyncProducer(
        access.name_server,
        _GROUP,
        namespace=namespace,
        credentials=access.credentials,
        tls=access.tls,
    )


async def _timed_sends(
    session: Session, producer: AsyncProducer, queues: Sequence[QueueRef]
) -> list[_TimedSend]:
    """To each queue in turn."""
    given = session.given
    sends = []
    for queue in islice(cycle(queues), given.amount):
        start_s = monotonic()
        problem = None
        try:
            await producer.send(
                Message(queue.topic, bytes(given.size)),
                queue=queue,
                timeout_s=session.access.timeout_s,
            )
        except ClientError as error:
            problem = str(error)
        sends.append(_TimedSend(queue, (monotonic() - start_s) * 1000, problem))
    return sends


async def _check_topic(session: Session) -> int:
    topic = session.given.topic
    # Not the producer's: it would create a topic that is missing.
    queues = [
        QueueRef(topic, each.broker_name, queue_id)
        for each in await session.admin.topic_route(topic)
        for queue_id in range(each.write_queue_count)
    ]
    async with _producer(session, session.access.namespace) as producer:
        sends = await _timed_sends(session, producer, queues)
    rows = [
        (each.queue.broker_name, each.queue.queue_id, each.took_ms, each.problem) for each in sends
    ]
    table = ReportTable("sends", ("broker", "queue", "took_ms", "problem"), rows)
    session.finish(Report({"average_ms": average_ms(sends)}, [table]))
    return FAILED if any(each.problem for each in sends) else DONE


async def _check_brokers(session: Session) -> int:
    """Each broker has a topic of its name."""
    given = session.given

    async def show(producer: AsyncProducer) -> int:
        rows = []
        for broker in await masters_where(session, given.cluster):
            queue = QueueRef(broker.broker_name, broker.broker_name, 0)
            sends = await _timed_sends(session, producer, [queue])
            failed = [each.problem for each in sends if each.problem]
            done_count = len(sends) - len(failed)
            rows.append(
                (
                    *(broker.cluster, broker.broker_name, average_ms(sends)),
                    *(done_count, len(failed), next(iter(failed), None)),
                )
            )
        columns = ("cluster", "broker", "average_ms", "sent", "failed", "problem")
        session.finish(Report({}, [ReportTable("brokers", columns, rows)]))
        return DONE

    async with _producer(session, None) as producer:
        return await every(given.interval, lambda: show(producer))


COMMANDS: Final = {
    "checkMsgSendRT": Command(
        "Send messages to the queues of a topic, and show how long each took.",
        [TOPIC, _AMOUNT, _SIZE],
        own(_check_topic),
    ),
    "clusterRT": Command(
        "Send messages to all brokers again and again, and show how long they took.",
        [
            _AMOUNT,
            _SIZE,
            Flag("c", "cluster"),
            Flag("i", "interval", kind=whole_number(1), default=_INTERVAL_S),
        ],
        own(_check_brokers),
    ),
}
