"""Why a consumer does not consume yet, by topic: logged with the remedy, raised by `open`."""

import logging
from collections.abc import Callable
from typing import Final, final

from roquet.client.errors import ClientError, NothingToRead, TopicNotFound
from roquet.throttled_log import ThrottledLog

log = logging.getLogger(__name__)

# For what concerns all topics.
EVERYTHING: Final = ""


@final
class Readiness:
    """`consumer` names the consumer in logs."""

    def __init__(self, consumer: str, now_s: Callable[[], float]) -> None:
        self._consumer = consumer
        self._by_topic: dict[str, ClientError] = {}
        # By text: a name server that is down concerns all topics, and is logged once.
        self._throttled = ThrottledLog(log, now_s)
        self.last_error: str | None = None

    @property
    def first(self) -> ClientError | None:
        """One of the current errors."""
        return next(iter(self._by_topic.values()), None)

    def is_reported(self, topic: str) -> bool:
        return topic in self._by_topic

    def report(self, topic: str, error: ClientError, *, is_logged: bool = True) -> None:
        """The topic cannot be consumed now."""
        text = str(error)
        known = self._by_topic.get(topic)
        if known is None or str(known) != text:
            self.last_error = text
            self._forget(topic)
        self._by_topic[topic] = error
        if is_logged:
            self._throttled.warning(
                text, f"{self._consumer} is not consuming yet, retrying: {error}"
            )

    def clear(self, topic: str) -> None:
        """The topic can be consumed."""
        if self._forget(topic):
            log.info("%s %s", self._consumer, f"found {topic}" if topic else "has a topic now")

    def _forget(self, topic: str) -> bool:
        error = self._by_topic.pop(topic, None)
        if error is None:
            return False
        if all(str(each) != str(error) for each in self._by_topic.values()):
            self._throttled.clear(str(error))
        return True


def no_topic() -> NothingToRead:
    return NothingToRead("it has no topic; call subscribe(topic)")


def topic_missing(topic: str) -> TopicNotFound:
    return TopicNotFound(
        topic, "no broker has it; it is misspelt, or made by its first message or `create_topic`"
    )
