"""Topics made as operators make them: by a request to a broker, which registers them."""

from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.topics import TopicConfigTable
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.frame import SERIALIZER_JSON
from roquet.protocol.headers.topics import CreateTopicHeader
from tests.support.blocking_peer import BlockingPeer

_MADE = (
    ResponseCode.SUCCESS,
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)


def create_topic(
    broker: str,
    topic: str,
    queue_count: int = 1,
    *,
    permission: int = 6,
    serializer: int = SERIALIZER_JSON,
) -> None:
    """`broker` is an address. It has registered the topic at its name servers when it answers.

    Where slaves have to confirm it they may do so later: a test starts with its topics, and they
    are lost with the broker only if it never has a slave.
    """
    reply = asked_for_topic(
        broker, topic, queue_count, permission=permission, serializer=serializer
    )
    assert reply.code in _MADE, reply.remark


def asked_for_topic(
    broker: str,
    topic: str,
    queue_count: int,
    *,
    permission: int = 6,
    serializer: int = SERIALIZER_JSON,
) -> Command:
    """What the broker answers, whatever it is. Raises OSError and PeerGone."""
    header = CreateTopicHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_nums=queue_count,
        write_queue_nums=queue_count,
        perm=permission,
        topic_filter_type="SINGLE_TAG",
    )
    with BlockingPeer(broker, serializer) as peer:
        return peer.call(RequestCode.UPDATE_AND_CREATE_TOPIC, header)


def has_topic(broker: str, topic: str) -> bool:
    with BlockingPeer(broker) as peer:
        reply = peer.call(RequestCode.GET_ALL_TOPIC_CONFIG)
    return topic in read_body(TopicConfigTable, reply.body).topic_config_table
