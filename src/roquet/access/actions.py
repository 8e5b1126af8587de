"""What each request does with which resource, for the policies of RocketMQ 5.

Requests of clients need rights on topics and groups (`needs`); some of these are also granted by
further actions. Requests of administrators are in a table; those that are not in it change the
cluster. Apache 5.5.0 does not check requests that have no header of their own, such as changes of
settings: every user may make them. Here they need a right on the cluster.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from roquet.access.accounts import ALL_TOPICS
from roquet.access.policies import Action, Actions, ResourceKind, Wanted, wanted_by
from roquet.net.router import Needs, Request
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import RequestCode as Code

_GET: Final = frozenset({Action.GET})
_CREATE: Final = frozenset({Action.CREATE, Action.UPDATE})
_UPDATE: Final = frozenset({Action.UPDATE})

# Beside the rights that a request needs, one of these is enough.
_MORE: Final[dict[int, Actions]] = {
    **dict.fromkeys(
        (
            *(Code.QUERY_MESSAGE, Code.VIEW_MESSAGE_BY_ID, Code.GET_CONSUMER_LIST_BY_GROUP),
            *(Code.QUERY_CONSUMER_OFFSET, Code.GET_MAX_OFFSET, Code.GET_MIN_OFFSET),
            *(Code.SEARCH_OFFSET_BY_TIMESTAMP, Code.GET_EARLIEST_MSG_STORETIME),
            *(Code.GET_TOPIC_STATS_INFO, Code.GET_CONSUMER_CONNECTION_LIST, Code.GET_CONSUME_STATS),
            *(Code.QUERY_TOPIC_CONSUME_BY_WHO, Code.QUERY_CONSUME_TIME_SPAN, Code.POLLING_INFO),
            *(Code.GET_CONSUMER_RUNNING_INFO, Code.QUERY_CONSUME_QUEUE, Code.GET_TOPIC_CONFIG),
            *(Code.QUERY_TOPICS_BY_CONSUMER, Code.QUERY_SUBSCRIPTION_BY_CONSUMER),
            Code.GET_SUBSCRIPTIONGROUP_CONFIG,
        ),
        _GET,
    ),
    Code.UPDATE_CONSUMER_OFFSET: _UPDATE,
}


class _Administration(NamedTuple):
    """A request of an administrator. Without a field it is about the cluster."""

    actions: Actions
    kind: ResourceKind = ResourceKind.CLUSTER
    field: str | None = None


_ON_CLUSTER: Final = _Administration(_UPDATE)

ADMINISTRATION: Final[dict[int, _Administration]] = {
    Code.UPDATE_AND_CREATE_TOPIC: _Administration(_CREATE, ResourceKind.TOPIC, "topic"),
    Code.DELETE_TOPIC_IN_BROKER: _Administration(
        frozenset({Action.DELETE}), ResourceKind.TOPIC, "topic"
    ),
    Code.DELETE_SUBSCRIPTIONGROUP: _Administration(
        frozenset({Action.DELETE}), ResourceKind.GROUP, "group_name"
    ),
    Code.RESUME_CHECK_HALF_MESSAGE: _Administration(_UPDATE, ResourceKind.TOPIC, "topic"),
    **dict.fromkeys(
        (
            *(Code.AUTH_GET_USER, Code.AUTH_LIST_USER, Code.AUTH_GET_ACL, Code.AUTH_LIST_ACL),
            *(Code.GET_BROKER_CONFIG, Code.GET_BROKER_RUNTIME_INFO, Code.VIEW_BROKER_STATS_DATA),
            *(Code.GET_PRODUCER_CONNECTION_LIST, Code.GET_ALL_PRODUCER_INFO),
            Code.GET_BROKER_CONSUME_STATS,
        ),
        _Administration(_GET),
    ),
}


def wanted_of(
    cluster_name: str, server: Any, request: Request[Any], needs: Needs[Any, Any] | None
) -> Iterable[Wanted]:
    """Raises what a bad body raises when the needs are read from it."""
    code = request.command.code
    if needs is None:
        yield _administration(cluster_name, request)
        return
    more = _MORE.get(code, frozenset())
    for need in needs.of(server, request):
        if need.topic == ALL_TOPICS:
            # A replica reads the state of the whole broker.
            yield Wanted(ResourceKind.CLUSTER, cluster_name, _GET)
        else:
            yield wanted_by(need, more)


def _administration(cluster_name: str, request: Request[Any]) -> Wanted:
    if request.command.code == Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP:
        name = read_body(GroupConfig, request.body).group_name
        return Wanted(ResourceKind.GROUP, name, _CREATE)
    kind = ADMINISTRATION.get(request.command.code, _ON_CLUSTER)
    if kind.field is None:
        return Wanted(kind.kind, cluster_name, kind.actions)
    return Wanted(kind.kind, getattr(request.header, kind.field), kind.actions)
