"""The topics of a broker, in memory and as `topics.json`.

The table belongs to the event loop. It does not save itself: it reports that it has changed, and
its `Saver` compares `change_count` with what it saved last. Settings are never changed
in place, so one that was handed out stays what it was.

A master that has epochs writes each change to its log first: `write_ahead`. A slave has the table
of its master, fetched and from the log (`versions`); besides, it creates topics for queues that
it receives.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import IntFlag
from typing import Final, final

from msgspec.structs import replace

from roquet.broker.errors import BadName, BadQueueCount, NoMoreTopics, UnknownTopic
from roquet.broker.settings.config import BrokerConfig
from roquet.broker.tables.attributes import changed_attributes, check_supported
from roquet.broker.tables.saving import do_nothing
from roquet.broker.tables.versions import (
    changed,
    gives_way,
    in_part,
    is_later,
    is_of_epoch,
    led,
)
from roquet.clock import Clock
from roquet.protocol import names
from roquet.protocol.bodies.body import DataVersion, read_body, write_body
from roquet.protocol.bodies.topics import TopicConfig, TopicConfigTable
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
    """`find(topic)` is a bare look-up in a dict, because every message does it.

    `on_change` is called after every change except a load, `write_ahead` before each change that
    this broker makes itself: the name, the settings or None, and the version to come. It may raise
    Refused; then nothing has changed.
    """

    __slots__ = (
        "_built_in",
        "_clock",
        "_copied",
        "_has_epochs",
        "_is_masters",
        "_topics",
        "change_count",
        "find",
        "on_change",
        "stored_queue_count",
        "version",
        "write_ahead",
    )

    def __init__(
        self, clock: Clock, built_in: Iterable[TopicConfig] = (), *, has_epochs: bool = False
    ) -> None:
        """With epochs it is that of a master until `lead`."""
        self._clock = clock
        self._has_epochs = self._is_masters = has_epochs
        # What the table of the master had when it was last fetched.
        self._copied: frozenset[str] = frozenset()
        self.write_ahead: Callable[[str, TopicConfig | None, DataVersion], None] = write_nothing
        # How many queues of a topic the store has: none of them is to be hidden.
        self.stored_queue_count: Callable[[str], int] = lambda _topic: 0
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
        ours = (names.TABLES_TOPIC,) if self._has_epochs else ()
        return names.SYSTEM_TOPICS.union(self._built_in, ours)

    def lead(self, epoch: int) -> None:
        """From now on this is the table of the master of that epoch."""
        self._is_masters = False
        self._became(led(self.version, epoch, self._clock.now_ms()))

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
            made = _inherited(topic, parent, queue_count, flags)
            return self._put(_widened(made, self.stored_queue_count(topic)))
        return self.find_or_create(topic, 1, flags)

    def find_or_create(self, topic: str, queue_count: int, flags: int = 0) -> TopicConfig:
        """For topics that no operator creates: of retries, dead letters and the system itself.

        Raises BadName.
        """
        found = self._topics.get(topic)
        if found is not None:
            return found
        return self._put(_topic(topic, max(queue_count, self.stored_queue_count(topic)), flags))

    def restore(self, queues: Mapping[str, Sequence[int]]) -> list[str]:
        """Every queue of the store (topic -> ids) has a topic from now on; those it made."""
        unknown = []
        for topic in queues.keys() - {names.TABLES_TOPIC}:
            is_known = topic in self._topics
            if self._show_queue(topic, max(queues[topic])) and not is_known:
                unknown.append(topic)
        return sorted(unknown)

    def see_queue(self, topic: str, queue_id: int) -> bool:
        """A slave has messages of that queue; whether the table had to be changed for it.

        Where the log brings every change of the master's table, there is nothing to guess.
        """
        if is_of_epoch(self.version, has_epochs=self._has_epochs) or names.is_closed_topic(topic):
            return False
        return self._show_queue(topic, queue_id)

    def update(self, topic: TopicConfig) -> TopicConfig:
        """An operator's change; its attributes are changes to the present ones.

        Raises BadName, BadQueueCount, BadAttributes and UnsupportedAttribute.
        """
        for queue_count in (topic.read_queue_nums, topic.write_queue_nums):
            if not 0 <= queue_count <= QUEUE_COUNT_MAX:
                raise BadQueueCount(queue_count, QUEUE_COUNT_MAX)
        old = self._topics.get(topic.topic_name)
        attributes = changed_attributes(old.attributes if old else {}, topic.attributes)
        check_supported(topic.topic_name, attributes)
        return self._put(replace(topic, attributes=attributes))

    def delete(self, topic: str) -> bool:
        """Whether it was there."""
        if topic not in self._topics:
            return False
        version = self._next_version()
        self.write_ahead(topic, None, version)
        del self._topics[topic]
        self._became(version)
        return True

    def set_ordered(self, ordered: Collection[str]) -> None:
        """Exactly these topics are ordered, as the name server answered."""
        wrong = [topic for name, topic in self._topics.items() if topic.order != (name in ordered)]
        for topic in wrong:
            self._change(replace(topic, order=not topic.order))

    def snapshot(self) -> TopicConfigTable:
        """What slaves are sent."""
        return TopicConfigTable(data_version=self.version, topic_config_table=dict(self._topics))

    def registered(self, broker_permission: int) -> TopicConfigTable:
        """What name servers are sent: no topic is more open than its broker."""
        table = self.snapshot()
        if broker_permission != _READ_WRITE:
            table.topic_config_table = {
                name: replace(topic, perm=topic.perm & broker_permission)
                for name, topic in self._topics.items()
            }
        return table

    def bump_version(self) -> None:
        """What name servers get has changed, though no topic has."""
        self._became(self._next_version())

    def follow(self, table: TopicConfigTable) -> list[str]:
        """Takes over what the master has, if that has changed; returns what was left out."""
        if not gives_way(self.version, table.data_version, has_epochs=self._has_epochs):
            return []
        is_exact = is_of_epoch(table.data_version, has_epochs=self._has_epochs)
        for topic in self._topics.keys() - self._built_in - table.topic_config_table.keys():
            if is_exact or not self._was_missed(topic):
                del self._topics[topic]
        left_out = self._take_over(table)
        self._copied = frozenset(table.topic_config_table)
        self._became(table.data_version)
        return left_out

    def apply(self, name: str, topic: TopicConfig | None, version: DataVersion) -> bool:
        """A change that a master wrote to the log, None for a deletion; whether it was news."""
        if not is_later(version, self.version):
            return False
        if topic is None and name not in self._built_in:
            self._topics.pop(name, None)
        elif topic is not None and (names.is_name(name) or name in self._built_in):
            self._topics[name] = replace(topic, topic_name=name)
        self._became(in_part(version))
        return True

    def forget_version(self) -> None:
        """The log was cut: changes that it lost are in the table. What it has left counts again."""
        self.version = in_part(DataVersion())

    def to_bytes(self) -> bytes:
        """The content of `topics.json`."""
        return write_body(self.snapshot())

    def load(self, data: bytes) -> list[str]:
        """Lays the content of `topics.json` over the built-in topics.

        Returns what was left out because no topic may be called that. Raises BadBody, and then
        nothing has changed.
        """
        return self._take_over(read_body(TopicConfigTable, data))

    def check_attributes(self) -> None:
        """After a load: another broker may have made such topics. Raises UnsupportedAttribute."""
        for topic in self._topics.values():
            check_supported(topic.topic_name, topic.attributes)

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
        self._change(topic)
        return topic

    def _change(self, topic: TopicConfig) -> None:
        version = self._next_version()
        self.write_ahead(topic.topic_name, topic, version)
        self._topics[topic.topic_name] = topic
        self._became(version)

    def _show_queue(self, topic: str, queue_id: int) -> bool:
        """Its topic has that queue from now on; whether it had not before."""
        found = self._topics.get(topic)
        if found is not None and queue_id < max(found.read_queue_nums, found.write_queue_nums):
            return False
        if not names.is_name(topic) or queue_id >= QUEUE_COUNT_MAX:
            return False
        self._change(_widened(found or _topic(topic, 1), queue_id + 1))
        return True

    def _was_missed(self, topic: str) -> bool:
        """Whether a topic that the master does not have was not deleted there.

        The store has messages of it, and the master's table never had it: the master may
        have become one before it knew the topic.
        """
        return topic not in self._copied and self.stored_queue_count(topic) > 0

    def _next_version(self) -> DataVersion:
        if self._is_masters:
            return in_part(self.version)
        return changed(self.version, self._clock.now_ms())

    def _became(self, version: DataVersion) -> None:
        self.version = version
        self.change_count += 1
        self.on_change()


def write_nothing(_name: str, _settings: object, _version: DataVersion) -> None:
    """The `write_ahead` of a table that is not in the log."""


def _topic(name: str, queue_count: int, flags: int = 0) -> TopicConfig:
    return TopicConfig(
        topic_name=name,
        read_queue_nums=queue_count,
        write_queue_nums=queue_count,
        topic_sys_flag=flags,
    )


def _widened(topic: TopicConfig, queue_count: int) -> TopicConfig:
    """With at least so many queues."""
    return replace(
        topic,
        read_queue_nums=max(topic.read_queue_nums, queue_count),
        write_queue_nums=max(topic.write_queue_nums, queue_count),
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
