"""Names and delays: how Kombu's become RocketMQ's. Nothing here does I/O."""

import hashlib
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from roquet.client.push.outcome import LEVELS_S

# Topics may have 127 characters; a group's topics have a prefix.
NAME_SIZE_MAX: Final = 100
# Longer delays are made of several: not every broker has timers for more than three days.
DELAY_MAX: Final = timedelta(days=2)
# A task that is due sooner is kept by its worker.
DELAY_MIN: Final = timedelta(seconds=1)

_EXCHANGE_PREFIX: Final = "kombu-exchange"
_DIGEST_SIZE: Final = 8
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_TAG: Final = re.compile(r"[A-Za-z0-9_.:@-]{1,100}")
_WILDCARDS: Final = {"*": r"[^.]+", "#": r".*"}


def queue_topic(queue: str, prefix: str = "") -> str:
    """The topic of a queue, and the name of its consumer group.

    It is the name of the queue. A topic has letters, digits, `_` and `-` only, and here at most 100
    of them: if the queue has others, each becomes `_`, and a digest follows that keeps `a.b` and
    `a_b` apart.
    """
    return _topic(f"{prefix}{queue}")


def exchange_topic(exchange: str, prefix: str = "") -> str:
    """The topic of an exchange; "" is the one of direct messages to transient queues."""
    name = f"{prefix}{_EXCHANGE_PREFIX}"
    return _topic(f"{name}-{exchange}" if exchange else name)


def tag_of(routing_key: str) -> str:
    """The tag of a routing key: the key, or a digest of one that is no tag."""
    return routing_key if _TAG.fullmatch(routing_key) else f"key-{_digest(routing_key)}"


class Binding(NamedTuple):
    """Which messages of an exchange a queue gets: those with a tag, with a key that matches, or all
    of them."""

    topic: str
    tag: str | None = None
    pattern: re.Pattern[str] | None = None

    def takes(self, tag: str | None, routing_key: str) -> bool:
        if self.tag is not None:
            return tag == self.tag
        return self.pattern is None or self.pattern.fullmatch(routing_key) is not None


def tags_of(bindings: Iterable[Binding]) -> str | None:
    """What a broker has to compare for bindings to one topic; None if only `takes` can."""
    tags = {binding.tag for binding in bindings}
    return None if None in tags else " || ".join(sorted(filter(None, tags)))


def binding_of(exchange_type: str, topic: str, routing_key: str) -> Binding:
    """Raises ValueError for a type that a binding cannot express."""
    match exchange_type:
        case "fanout":
            return Binding(topic)
        case "direct":
            return Binding(topic, tag_of(routing_key))
        case "topic" if not any(word in _WILDCARDS for word in routing_key.split(".")):
            return Binding(topic, tag_of(routing_key))
        case "topic":
            words = [_WILDCARDS.get(word, re.escape(word)) for word in routing_key.split(".")]
            # `#` is any number of words, none of them too: `a.#` takes `a`.
            pattern = r"\.".join(words).replace(r"\..*", r"(\..*)?").replace(r".*\.", r"(.*\.)?")
            return Binding(topic, pattern=re.compile(pattern))
        case _:
            raise ValueError(
                f"exchange type {exchange_type!r} is not supported: use direct, topic or fanout"
            )


def due_of(payload: Mapping[str, Any]) -> datetime | None:
    """When the task of a message is due, by its header `eta`; None for at once."""
    eta = (payload.get("headers") or {}).get("eta")
    if not isinstance(eta, str):
        return None
    try:
        due = datetime.fromisoformat(eta)
    except ValueError:
        return None  # The worker reports it.
    return due if due.tzinfo is not None else due.replace(tzinfo=UTC)


def delay_until(due: datetime | None, now: datetime) -> timedelta | None:
    """What a broker has to delay; None if it is too short for that."""
    if due is None or due - now < DELAY_MIN:
        return None
    return min(due - now, DELAY_MAX)


def level_within(delay: timedelta) -> int:
    """The longest delay level that is not too long; the rest follows when the message is back."""
    return bisect_right(LEVELS_S, delay.total_seconds())


def _topic(name: str) -> str:
    if len(name) <= NAME_SIZE_MAX and not _NOT_IN_NAMES.search(name):
        return name
    room = NAME_SIZE_MAX - _DIGEST_SIZE - 1
    return f"{_NOT_IN_NAMES.sub('_', name)[:room]}-{_digest(name)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_SIZE]
