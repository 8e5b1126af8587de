"""Acks that come together, written together.

SDKs acknowledge each message of a receive by a call of its own, and mostly all of them at once.
What is for one pop becomes one record of the journal. No ack is answered before it is written.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, Protocol, final

from roquet.broker.broker import Broker
from roquet.broker.messages.acks import OnTimeout
from roquet.broker.pop.in_flight import PopKey
from roquet.grpc.calls import Call, GrpcStatus
from roquet.grpc.codes import Code, code_of, refusal_status, status_of
from roquet.grpc.receives import ack_answer
from roquet.grpc.schema import Message
from roquet.net.errors import Refused
from roquet.protocol.codes import ResponseCode

# Of an entry: its status, or the pop that it is written with.
Result = Message | PopKey


class WaitingAck(Protocol):
    """A call whose acks are not written yet."""

    def answer(self, refused: Mapping[PopKey, Message], late: Message | None) -> None:
        """With the statuses of pops that were refused, and `late` instead of each success."""

    def give_up(self, text: str) -> None:
        """The broker stops or restarts."""


class Ack(NamedTuple):
    """A call, with a result for each of its entries."""

    call: Call
    request: Message
    results: list[Result]

    def answer(self, refused: Mapping[PopKey, Message], late: Message | None) -> None:
        found = statuses_of(self.results, refused, late)
        self.call.answer(ack_answer(self.request, found).SerializeToString())

    def give_up(self, text: str) -> None:
        self.call.finish(GrpcStatus.UNAVAILABLE, text)


def statuses_of(
    results: Iterable[Result], refused: Mapping[PopKey, Message], late: Message | None
) -> list[Message]:
    """Of the entries of a call."""
    found = [refused.get(each, _OK) if isinstance(each, PopKey) else each for each in results]
    if late is not None:
        return [late if each.code == Code.OK else each for each in found]
    return found


@final
class AckTurn:
    """Belongs to the event loop. `serving` is the current broker, None while it restarts."""

    def __init__(self, serving: Callable[[], Broker | None]) -> None:
        self._serving = serving
        self._acks: list[WaitingAck] = []
        self._offsets: dict[PopKey, list[int]] = {}
        # Of what is written already.
        self._end = 0

    def join(self, key: PopKey, offset: int) -> PopKey:
        """One more message of a pop; the result of its entry."""
        self._offsets.setdefault(key, []).append(offset)
        return key

    def add(self, ack: WaitingAck, end: int) -> None:
        """Answered when all of it is written, and the log is safe up to `end`."""
        self._acks.append(ack)
        self._end = max(self._end, end)

    def flush(self) -> None:
        """Comes after all calls that came together, and before any of them that changes messages in
        flight."""
        if not self._acks:
            return
        acks, self._acks = self._acks, []
        offsets, self._offsets = self._offsets, {}
        end, self._end = self._end, 0
        broker = self._serving()
        if broker is None:
            for each in acks:
                each.give_up("the broker restarts")
            return
        refused = {}
        for key, acked in offsets.items():
            try:
                end = max(end, broker.waiting.pops.note_acks(key, acked))
            except Refused as refusal:
                refused[key] = refusal_status(refusal)
        broker.messages.acks.when_settled(
            end, lambda code: _answer_all(acks, refused, code), OnTimeout.REFUSE
        )


def _answer_all(acks: list[WaitingAck], refused: dict[PopKey, Message], code: ResponseCode) -> None:
    late = None
    if code is not ResponseCode.SUCCESS:
        late = status_of(code_of(code), "the message may be redelivered")
    for each in acks:
        each.answer(refused, late)


_OK = status_of(Code.OK)
