"""Options that say which topics are meant: by name, by several names, or by a pattern."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from roquet.pipeline.errors import BadOption
from roquet.pipeline.options.declaring import option
from roquet.pipeline.options.kinds import names, pattern, text


@dataclass(frozen=True, kw_only=True)
class TopicOptions:
    topic: str | None = option("topic", text, "the topic", None)
    topics: tuple[str, ...] | None = option("topics", names, "several topics", None)
    topic_pattern: str | None = option(
        "topicPattern",
        pattern,
        "all topics whose whole name matches; new ones are found later",
        None,
    )

    def __post_init__(self) -> None:
        """Raises BadOption."""
        given = [each for each in (self.topic, self.topics, self.topic_pattern) if each is not None]
        if len(given) != 1:
            raise BadOption(
                "topic", "exactly one of 'topic', 'topics' and 'topicPattern' has to be given"
            )

    @property
    def named(self) -> tuple[str, ...] | None:
        """The topics, unless a pattern has to be compared with those that there are."""
        return (self.topic,) if self.topic is not None else self.topics

    def chosen(self, there: Iterable[str]) -> list[str]:
        """Of the topics that there are, those that match the pattern."""
        assert self.topic_pattern is not None
        matches = re.compile(self.topic_pattern).fullmatch
        return sorted(topic for topic in there if matches(topic))
