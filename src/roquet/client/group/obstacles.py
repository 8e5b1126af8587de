"""Why a consumer does not read what it wants: said once, with the remedy."""

import logging
from typing import Final, final

from roquet.client.errors import ClientError, NothingToRead, TopicNotFound

log = logging.getLogger(__name__)

# What is in the way of everything, and not of one topic.
EVERYTHING: Final = ""


@final
class Obstacles:
    """`who` names the consumer in logs."""

    def __init__(self, who: str) -> None:
        self._who = who
        self._by_topic: dict[str, ClientError] = {}
        self.last_error: str | None = None

    @property
    def first(self) -> ClientError | None:
        """One of those that are there now."""
        return next(iter(self._by_topic.values()), None)

    def meet(self, topic: str, error: ClientError) -> None:
        """Something is in the way of a topic."""
        known = self._by_topic.get(topic)
        # One name server that is away stands before all topics, and says so once.
        is_said = any(str(each) == str(error) for each in self._by_topic.values())
        self._by_topic[topic] = error
        if known is None or str(known) != str(error):
            self.last_error = str(error)
            level = logging.DEBUG if is_said else logging.WARNING
            log.log(level, "%s cannot read yet, and tries on: %s", self._who, error)

    def pass_by(self, topic: str) -> None:
        """Nothing is in the way of it any more."""
        if self._by_topic.pop(topic, None) is not None:
            log.info("%s %s", self._who, f"found {topic}" if topic else "has a topic now")


def nothing_wanted() -> NothingToRead:
    return NothingToRead("it has no topic; call subscribe(topic)")


def not_there(topic: str) -> TopicNotFound:
    return TopicNotFound(
        topic, "no broker has it; it is misspelt, or made by its first message or `create_topic`"
    )
