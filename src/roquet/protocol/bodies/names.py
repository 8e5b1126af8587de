"""Plain lists of names: topics, groups, clients."""

from roquet.protocol.bodies.body import Body, always


class TopicList(Body, kw_only=True):
    """Reply to 206, 224, 304, 305, 311-313, 343."""

    broker_addr: str | None = None
    topic_list: list[str] = always([])


class GroupList(Body, kw_only=True):
    """Reply to 300: the groups that consume a topic."""

    group_list: list[str] = always([])


class ConsumerIds(Body, kw_only=True):
    """Reply to 38: the client ids of a consumer group."""

    consumer_id_list: list[str] = always([])
