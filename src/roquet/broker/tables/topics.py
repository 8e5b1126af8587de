"""The topics of a broker, in memory and as `topics.json`.

The table belongs to the event loop. It does not save itself: it announces that it has changed, and
whoever owns the file compares `change_count` with what it saved last. Settings are never changed
in place, so one that was handed out stays what it was.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntFlag
from typing import Final, final

from msgspec.structs import replace

from roquet.broker.errors import BadName, BadQueueCount, NoMoreTopics, UnknownTopic
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.tables.attributes import changed_attributes, refuse_what_is_not_kept
from roquet.broker.tables.saving import do_nothing
from roquet.clock import Clock
from roquet.protocol import names
from roquet.protocol.bodies.body import read_body, write_body
from roquet.protocol.bodies.data_version import DataVersion
from roquet.protocol.bodies.topic_config import TopicConfig, TopicConfigTable
from roquet.protocol.codes import Permission

# Reports about a topic go through all its queues, so their count has an end.
QUEUE_COUNT_MAX: Final = 65_536

_TEMPLATE: Final = names.TEMPLATE_TOPIC
# Plain numbers: those of an enum take microseconds to be compared.
_READ_WRITE: Final = int(Permission.READ | Permission.WRITE)
_INHERIT: Final = int(Permission.INHERIT)
_SCHEDULE_QUEUE_COUNT: Final = 18
_BENCHMARK_QUEUE_COUNT: Final = 1024
_CLUSTER_TOPIC_QUEUE_COUNT: Final = 16


class TopicFlag(IntFlag):
    """Bits of `topicSysFlag`."""

    UNIT = 1
    UNIT_SUBSCRIPTION = 2


def built_in_topics(config: BrokerConfig) -> list[TopicConfig]:
    """What every broker has from its start. Clients find the cluster by the topic of its name."""
    topics = [
        _topic(names.SELF_TEST_TOPIC, 1),
        _topic(names.BENCHMARK_TOPIC, _BENCHMARK_QUEUE_COUNT),
        _template(config.cluster_name, _CLUSTER_TOPIC_QUEUE_COUNT, config.open_cluster_topic),
        _template(config.broker_name, 1, config.open_broker_topic),
        _topic(names.OFFSET_MOVED_TOPIC, 1),
        _topic(names.SCHEDULE_TOPIC, _SCHEDULE_QUEUE_COUNT),
        _topic(names.reply_topic(config.cluster_name), 1),
    ]
    if config.create_topics:
        topics.append(_template(_TEMPLATE, config.template_queue_count, is_open=True))
    if config.make_trace_topic:
        topics.append(_topic(config.trace_topic, 1))
    return topics


@final
class TopicTable:
    """`find(topic)` is a plain look-up in a dict, because every message does it.

    `on_change` is called after every change except a load.
    """

    __slots__ = ("_built_in", "_clock", "_topics", "change_count", "find", "on_change", "version")

    def __init__(self, clock: Clock, built_in: Iterable[TopicConfig] = ()) -> None:
        self._clock = clock
        # Filled and emptied, never replaced: `find` is bound to it.
        self._topics = {topic.topic_name: topic for topic in built_in}
        self._built_in = frozenset(self._topics)
        self.find: Final[Callable[[str], TopicConfig | None]] = self._topics.get
        self.version = DataVersion(timestamp=clock.now_ms())
        self.change_count = 0
        self.on_change: Callable[[], None] = do_nothing

    def __contains__(self, topic: str) -> bool:
        return topic in self._topics

    @property
    def system_topics(self) -> frozenset[str]:
        return names.SYSTEM_TOPICS | self._built_in

    def is_system(self, topic: str) -> bool:
        """Whether operators may neither change nor delete it."""
        return topic in self._built_in or names.is_system_topic(topic)

    def create_by_send(
        self,
        topic: str,
        template: str,
        queue_count: int,
        *,
        may_create: bool,
        count_max: int | None = None,
        flags: int = 0,
    ) -> TopicConfig:
        """The topic of a message that names an unknown one, made after the topic `template`.

        Without `may_create` the usual template does not count, but others, such as the cluster's
        own, still do: Apache's rule. Raises BadName and UnknownTopic, and NoMoreTopics if there are
        `count_max` of them.
        """
        found = self._topics.get(topic)
        if found is not None:
            return found
        parent = self._topics.get(template) if may_create or template != _TEMPLATE else None
        is_inherited = parent is not None and parent.perm & _INHERIT
        if not is_inherited and not topic.startswith(names.RETRY_PREFIX):
            raise UnknownTopic(topic)
        if count_max is not None and len(self._topics) >= count_max:
            raise NoMoreTopics(count_max)
        if parent is not None and is_inherited:
            return self._put(_inherited(topic, parent, queue_count, flags))
        return self.find_or_create(topic, 1, flags)

    def find_or_create(self, topic: str, queue_count: int, flags: int = 0) -> TopicConfig:
        """For topics that nobody asks for: those of retries, dead letters and the system itself.

        Raises BadName.
        """
        found = self._topics.get(topic)
        return found or self._put(_topic(topic, queue_count, flags))

    def restore(self, queues: Mapping[str, Sequence[int]]) -> list[str]:
        """Topics that have queues in the store (topic -> ids) and are not known; those it made."""
        unknown = [topic for topic in queues if topic not in self._topics and names.is_name(topic)]
        for topic in unknown:
            self._put(_topic(topic, max(queues[topic]) + 1))
        return unknown

    def update(self, topic: TopicConfig) -> TopicConfig:
        """What an operator says; its attributes are changes to those that there are.

        Raises BadName, BadQueueCount, BadAttributes and AttributeNotKept.
        """
        for queue_count in (topic.read_queue_nums, topic.write_queue_nums):
            if not 0 <= queue_count <= QUEUE_COUNT_MAX:
                raise BadQueueCount(queue_count, QUEUE_COUNT_MAX)
        old = self._topics.get(topic.topic_name)
        attributes = changed_attributes(old.attributes if old else {}, topic.attributes)
        refuse_what_is_not_kept(topic.topic_name, attributes)
        return self._put(replace(topic, attributes=attributes))

    def delete(self, topic: str) -> bool:
        """Whether it was there."""
        if self._topics.pop(topic, None) is None:
            return False
        self._changed()
        return True

    def set_ordered(self, ordered: Collection[str]) -> None:
        """Just these topics are ordered; the name server says so."""
        changed = [
            replace(topic, order=not topic.order)
            for name, topic in self._topics.items()
            if topic.order != (name in ordered)
        ]
        self._topics.update((topic.topic_name, topic) for topic in changed)
        if changed:
            self._changed()

    def snapshot(self) -> TopicConfigTable:
        """What slaves are told."""
        return TopicConfigTable(data_version=self.version, topic_config_table=dict(self._topics))

    def announced(self, broker_permission: int) -> TopicConfigTable:
        """What name servers are told: no topic is more open than its broker."""
        table = self.snapshot()
        if broker_permission != _READ_WRITE:
            table.topic_config_table = {
                name: replace(topic, perm=topic.perm & broker_permission)
                for name, topic in self._topics.items()
            }
        return table

    def announce_anew(self) -> None:
        """What name servers are to be told has changed, though no topic has."""
        self._changed()

    def follow(self, table: TopicConfigTable) -> list[str]:
        """Takes over what the master has, if that has changed; returns what was left out."""
        if table.data_version == self.version:
            return []
        for topic in self._topics.keys() - self._built_in - table.topic_config_table.keys():
            del self._topics[topic]
        left_out = self._take_over(table)
        self.change_count += 1
        self.on_change()
        return left_out

    def to_bytes(self) -> bytes:
        """The content of `topics.json`."""
        return write_body(self.snapshot())

    def load(self, data: bytes) -> list[str]:
        """Lays the content of `topics.json` over the built-in topics.

        Returns what was left out because no topic may be called that. Raises BadBody, and then
        nothing has changed.
        """
        return self._take_over(read_body(TopicConfigTable, data))

    def check_promises(self) -> None:
        """After a load: another broker may have made topics like that. Raises AttributeNotKept."""
        for topic in self._topics.values():
            refuse_what_is_not_kept(topic.topic_name, topic.attributes)

    def _take_over(self, table: TopicConfigTable) -> list[str]:
        left_out = []
        for name, topic in table.topic_config_table.items():
            if names.is_name(name) or name in self._built_in:
                self._topics[name] = replace(topic, topic_name=name)
            else:
                left_out.append(name)
        self.version = table.data_version
        return left_out

    def _put(self, topic: TopicConfig) -> TopicConfig:
        if not names.is_name(topic.topic_name):
            raise BadName(topic.topic_name)
        self._topics[topic.topic_name] = topic
        self._changed()
        return topic

    def _changed(self) -> None:
        self.version = replace(
            self.version, counter=self.version.counter + 1, timestamp=self._clock.now_ms()
        )
        self.change_count += 1
        self.on_change()


def _topic(name: str, queue_count: int, flags: int = 0) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queue_count,
        write_queue_nums=queue_count,
        topic_sys_flag=flags,
    )


def _template(name: str, queue_count: int, is_open: bool) -> TopicConfig:
    perm = _INHERIT | (_READ_WRITE if is_open else 0)
    return replace(_topic(name, queue_count), perm=perm)


def _inherited(name: str, parent: TopicConfig, queue_count: int, flags: int) -> TopicConfig:
    queue_count = max(0, min(queue_count, parent.write_queue_nums))
    return replace(
        _topic(name, queue_count, flags),
        perm=parent.perm & ~_INHERIT,
        topic_filter_type=parent.topic_filter_type,
    )
