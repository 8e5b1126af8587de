"""What each broker answered to whom, on the wire, and what the brokers have of it afterwards.

`Traffic` follows routes as programs do. A `Ledger` asks one broker by its address, also one that no
route names any more, and believes a single answer: SEND_OK is acknowledged. FLUSH_DISK_TIMEOUT,
SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT and silence are unknown, everything else has failed.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import Enum
from itertools import count
from typing import Final

from msgspec.structs import replace

from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.topics import TopicConfigTable
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.fields import read_header
from roquet.protocol.headers.groups import (
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetReplyHeader,
)
from roquet.protocol.headers.messages import PullMessageReplyHeader
from roquet.protocol.messages.record import split_records
from tests.faults.findings import Findings
from tests.faults.history import Acknowledged, History, Queue
from tests.support.blocking_peer import BlockingPeer, PeerGone
from tests.support.common_requests import common_pull_header, common_send_header, receipt_of
from tests.support.eventually import let_run

# A sender that is answered later than this has given up.
_TIMEOUT_S: Final = 3.0
_PAUSE_S: Final = 0.005
_LOOK_AGAIN_S: Final = 0.2
_UNKNOWN: Final = (
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)


class Outcome(Enum):
    ACKNOWLEDGED = "acknowledged"
    UNKNOWN = "unknown"
    FAILED = "failed"


class Ledger:
    """Queues are known by topic and number. May be used by several threads."""

    def __init__(self) -> None:
        self.history = History()
        self.outcomes: Counter[Outcome] = Counter()
        self._numbers = count()

    def send(
        self,
        address: str,
        topic: str,
        queue_id: int = 0,
        properties: Mapping[str, str] | None = None,
    ) -> Outcome:
        """One new message. With `properties` it may be delivered later, at another offset."""
        body = b"%b-%d" % (topic.encode(), next(self._numbers))
        self.history.attempted.add(body)
        header = common_send_header(topic, queue_id)
        added = "".join(f"{name}\1{value}\2" for name, value in (properties or {}).items())
        header = replace(header, properties=(header.properties or "") + added)
        begun_s = time.monotonic()
        outcome = Outcome.UNKNOWN
        with (
            suppress(OSError, PeerGone),
            BlockingPeer(address, timeout_s=_TIMEOUT_S) as peer,
        ):
            reply = peer.call(RequestCode.SEND_MESSAGE_V2, header, body)
            if reply.code == ResponseCode.SUCCESS and properties:
                outcome = Outcome.ACKNOWLEDGED
                self.history.promised[body] = 0.0
            elif reply.code == ResponseCode.SUCCESS:
                outcome = Outcome.ACKNOWLEDGED
                receipt = receipt_of(reply)
                self.history.acknowledged.append(
                    Acknowledged(
                        (topic, receipt.queue_id),
                        receipt.queue_offset,
                        body,
                        begun_s,
                        time.monotonic(),
                        receipt.msg_id,
                    )
                )
            elif reply.code not in _UNKNOWN:
                outcome = Outcome.FAILED
        self.outcomes[outcome] += 1
        return outcome

    def send_many(
        self,
        address: str,
        topic: str,
        number: int,
        queue_count: int = 1,
        properties: Mapping[str, str] | None = None,
    ) -> Counter[Outcome]:
        return Counter(
            self.send(address, topic, index % queue_count, properties) for index in range(number)
        )

    @contextmanager
    def sending(
        self, address: str, topic: str, on_outcome: Callable[[Outcome], None] = lambda _: None
    ) -> Iterator[None]:
        """While the block runs, one message after the other is sent, whatever is answered."""
        is_over = threading.Event()

        def send_on() -> None:
            while not is_over.wait(_PAUSE_S):
                on_outcome(self.send(address, topic))

        thread = threading.Thread(target=send_on)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def check(self, address: str, topics: Iterable[str], patience_s: float = 30.0) -> list[str]:
        """What the broker there should have and does not, as soon as it has all, or in the end."""
        wanted = list(topics)
        deadline_s = time.monotonic() + patience_s
        while True:
            with suppress(OSError, PeerGone):
                self.history.found = {}
                for topic in wanted:
                    self.history.found |= read_topic(address, topic)
            violations = [*self.history.violations(), *self._undelivered()]
            if not violations or time.monotonic() > deadline_s:
                return violations
            let_run(_LOOK_AGAIN_S)

    def counted(self) -> Findings:
        findings = Findings()
        for outcome in Outcome:
            findings.counts[outcome.value] = self.outcomes[outcome]
        return findings

    def _undelivered(self) -> Iterator[str]:
        read = {body for bodies in self.history.found.values() for body in bodies.values()}
        for body in self.history.promised:
            if body not in read:
                yield f"I6: {body!r} was never delivered"


def queue_count_of(address: str, topic: str) -> int | None:
    """As the broker there has it; None if it does not know the topic."""
    with BlockingPeer(address) as peer:
        reply = peer.call(RequestCode.GET_ALL_TOPIC_CONFIG)
    config = read_body(TopicConfigTable, reply.body).topic_config_table.get(topic)
    return None if config is None else config.read_queue_nums


def read_topic(address: str, topic: str) -> dict[Queue, dict[int, bytes]]:
    """Everything of a topic that a consumer could get of the broker there."""
    queue_count = queue_count_of(address, topic) or 0
    with BlockingPeer(address) as peer:
        return {
            (topic, queue_id): dict(_read_queue(peer, topic, queue_id))
            for queue_id in range(queue_count)
        }


def _read_queue(peer: BlockingPeer, topic: str, queue_id: int) -> Iterator[tuple[int, bytes]]:
    code = RequestCode.GET_MIN_OFFSET
    reply = peer.call(code, GetMinOffsetHeader(topic=topic, queue_id=queue_id))
    offset = read_header(OffsetReplyHeader, reply.fields).offset
    code = RequestCode.GET_MAX_OFFSET
    reply = peer.call(code, GetMaxOffsetHeader(topic=topic, queue_id=queue_id))
    end = read_header(OffsetReplyHeader, reply.fields).offset
    while offset < end:
        reply = peer.call(RequestCode.PULL_MESSAGE, common_pull_header(topic, queue_id, offset))
        if reply.code == ResponseCode.PULL_NOT_FOUND:
            return  # What follows is not for consumers yet.
        for message in split_records(reply.body):
            yield message.queue_offset, message.body
        offset = read_header(PullMessageReplyHeader, reply.fields).next_begin_offset
