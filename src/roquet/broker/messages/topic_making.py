"""Topics that the broker makes for itself, without being told to."""

from roquet.broker.broker import Broker
from roquet.protocol.bodies.topic_config import TopicConfig


def made_topic(broker: Broker, topic: str, queue_count: int, flags: int = 0) -> TopicConfig:
    """The topic; if there is none it is made, saved soon, and name servers learn of it.

    Raises BadName.
    """
    found = broker.topics.find(topic)
    if found is None:
        found = broker.topics.find_or_create(topic, queue_count, flags)
        broker.topic_saver.save_soon()
        broker.registrar.refresh_soon()
    return found
