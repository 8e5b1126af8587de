"""What one group of pop consumers was promised about each message, and whether that was kept.

    I11  a message is not delivered before its invisible time is over, not lost after it, and never
         again after its ack was answered

A client knows less than the broker. An ack that was sent and not answered may count or not, and so
may one whose answer came when the time of its receipt was over: brokers answer that with success.
Both are called doubtful, and such a message may come again. What was received and forgotten has to
come again; what has not is found when everything else is over.
"""

from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, final

# Clocks of receipts have milliseconds, and wall clock and monotonic clock are read one by one.
_CLOCK_STEP_S: Final = 0.005


class Line(NamedTuple):
    """Where order is promised: messages of one message group in one queue, one after the other."""

    queue_id: int
    message_group: str


@final
@dataclass(eq=False, slots=True)
class Outing:
    """One delivery of a message. Times are monotonic ones."""

    body: bytes
    received_s: float
    # Until when it is invisible, and since when that is known: the last one counts.
    promises: list[tuple[float, float]]
    offset: int = 0
    # None where order is not promised.
    line: Line | None = None

    @property
    def invisible_until_s(self) -> float:
        return self.promises[-1][1]

    def is_valid(self, now_s: float) -> bool:
        return now_s < self.invisible_until_s - _CLOCK_STEP_S

    def promised_at(self, at_s: float, answered_by_s: float) -> float:
        """Until when it was invisible at that time, if later answers are not relied on."""
        relied = [until_s for since_s, until_s in self.promises if since_s < answered_by_s]
        others = [until_s for since_s, until_s in self.promises if answered_by_s <= since_s < at_s]
        return min(relied[-1:] + others, default=0.0) if relied else 0.0


@final
@dataclass
class Invisibility:
    """Of one group."""

    group: str
    # When the ack was answered.
    acked_s: dict[bytes, float] = field(default_factory=dict)
    # When the first ack was sent, answered or not.
    tried_s: dict[bytes, float] = field(default_factory=dict)
    doubtful: set[bytes] = field(default_factory=set)
    # The last delivery of each message.
    outings: dict[bytes, Outing] = field(default_factory=dict)
    received_count: int = 0
    changed_count: int = 0
    early: list[str] = field(default_factory=list)
    after_ack: list[str] = field(default_factory=list)
    overtaken: list[str] = field(default_factory=list)
    _lines: defaultdict[Line, dict[bytes, Outing]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    def receive(self, outings: Iterable[Outing]) -> None:
        """Of one reply, in its order."""
        together: set[bytes] = set()
        for outing in outings:
            self.received_count += 1
            self._check(outing)
            # Whatever was sent before, it does not count any more.
            self.doubtful.discard(outing.body)
            if outing.line is not None:
                self._check_line(outing.line, outing, together)
            self.outings[outing.body] = outing
            together.add(outing.body)

    def begin_ack(self, outing: Outing, now_s: float) -> None:
        self.tried_s.setdefault(outing.body, now_s)
        self.doubtful.add(outing.body)

    def end_ack(self, outing: Outing, now_s: float) -> None:
        """It was answered with success."""
        if outing.is_valid(now_s):
            self.doubtful.discard(outing.body)
            self.acked_s.setdefault(outing.body, now_s)

    def refuse_ack(self, outing: Outing) -> None:
        """It was answered that it does not count."""
        self.doubtful.discard(outing.body)

    def begin_change(self, outing: Outing, invisible_until_s: float, now_s: float) -> None:
        """Whichever time is first is what the client can rely on, until there is an answer."""
        outing.promises.append((now_s, min(outing.invisible_until_s, invisible_until_s)))

    def end_change(self, outing: Outing, invisible_until_s: float, now_s: float) -> None:
        """It was answered with success, which means nothing if the time was over before."""
        if now_s < outing.promises[-2][1] - _CLOCK_STEP_S:
            outing.promises.append((now_s, invisible_until_s))
            self.changed_count += 1

    def is_done(self, body: bytes) -> bool:
        return body in self.acked_s or body in self.doubtful

    def undone(self, due: Iterable[bytes]) -> list[bytes]:
        return [body for body in due if not self.is_done(body)]

    def quiet_at_s(self) -> float:
        """When all that is acknowledged would have come again, if that were forgotten."""
        return max((self.outings[body].invisible_until_s for body in self.acked_s), default=0.0)

    def known_at(self, at_s: float, answered_by_s: float) -> "Invisibility":
        """What a client relies on when everything ends at that time; what it was answered later
        than `answered_by_s` it does not rely on."""
        known = Invisibility(self.group)
        known.acked_s = {body: s for body, s in self.acked_s.items() if s < answered_by_s}
        known.doubtful = {body for body, s in self.tried_s.items() if s < at_s}
        for body, outing in self.outings.items():
            until_s = outing.promised_at(at_s, answered_by_s)
            if until_s:
                known.outings[body] = Outing(body, outing.received_s, [(at_s, until_s)])
        return known

    def violations(self, due: Iterable[bytes]) -> Iterator[str]:
        yield from (f"I11: {self.group}: {each}" for each in (*self.early, *self.after_ack))
        yield from (f"I3: {self.group}: {each}" for each in self.overtaken)
        for body in self.undone(due):
            again = " again" if body in self.outings else ""
            yield f"I11: {self.group}: {body!r} never came{again}"

    def _check(self, outing: Outing) -> None:
        body, now_s = outing.body, outing.received_s
        acked_s = self.acked_s.get(body)
        if acked_s is not None:
            self.after_ack.append(f"{body!r} came {now_s - acked_s:.3f} s after its ack")
        last = self.outings.get(body)
        if last is not None and not self.is_done(body) and last.is_valid(now_s):
            early_s = last.invisible_until_s - now_s
            self.early.append(f"{body!r} came {early_s:.3f} s before its time")

    def _check_line(self, line: Line, outing: Outing, together: Container[bytes]) -> None:
        """All before it are done, or come with it."""
        out = self._lines[line]
        for body, other in list(out.items()):
            if self.is_done(body):
                del out[body]
            elif other.offset < outing.offset and body not in together:
                self.overtaken.append(f"{outing.body!r} came while {body!r} was out")
        out[outing.body] = outing
