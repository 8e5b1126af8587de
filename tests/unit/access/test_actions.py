"""What requests do with which resource."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from roquet.access.actions import ADMINISTRATION, wanted_of
from roquet.access.needs import EVERYTHING, AnyNeeds, reading
from roquet.access.policies import Action, ResourceKind, Wanted
from roquet.broker.handlers import ROUTES
from roquet.net.router import Request
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.groups import GroupConfig
from roquet.protocol.codes import RequestCode as Code
from roquet.protocol.command import Command

CLUSTER = "DefaultCluster"


def wanted(code: Code, needs: AnyNeeds | None = None, body: bytes = b"", **fields: Any) -> Any:
    command = Command(code, body=body)
    request = Request(cast("Any", SimpleNamespace(**fields)), command, cast("Any", None))
    return list(wanted_of(CLUSTER, None, request, needs))


def of(kind: ResourceKind, name: str, *actions: Action) -> Wanted:
    return Wanted(kind, name, frozenset(actions))


def test_fields_of_the_table_are_those_of_the_headers() -> None:
    headers = {route.code: route.header for route in ROUTES}
    for code, administration in ADMINISTRATION.items():
        if administration.field is not None:
            assert administration.field in headers[Code(code)].__struct_fields__


@pytest.mark.parametrize(
    ("code", "fields", "expected"),
    [
        (
            Code.UPDATE_AND_CREATE_TOPIC,
            {"topic": "t"},
            of(ResourceKind.TOPIC, "t", Action.CREATE, Action.UPDATE),
        ),
        (
            Code.DELETE_SUBSCRIPTIONGROUP,
            {"group_name": "g"},
            of(ResourceKind.GROUP, "g", Action.DELETE),
        ),
        (Code.AUTH_LIST_USER, {}, of(ResourceKind.CLUSTER, CLUSTER, Action.GET)),
        (Code.AUTH_CREATE_USER, {}, of(ResourceKind.CLUSTER, CLUSTER, Action.UPDATE)),
        (Code.UPDATE_BROKER_CONFIG, {}, of(ResourceKind.CLUSTER, CLUSTER, Action.UPDATE)),
    ],
)
def test_what_administrators_want(code: Code, fields: dict[str, str], expected: Wanted) -> None:
    assert wanted(code, None, b"", **fields) == [expected]


def test_a_group_is_named_by_its_body() -> None:
    body = write_body(GroupConfig(group_name="g"))
    expected = of(ResourceKind.GROUP, "g", Action.CREATE, Action.UPDATE)
    assert wanted(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body) == [expected]


def test_progress_is_shown_with_get_and_changed_with_update() -> None:
    needs = reading("topic", "group")
    for code, action in (
        (Code.QUERY_CONSUMER_OFFSET, Action.GET),
        (Code.UPDATE_CONSUMER_OFFSET, Action.UPDATE),
    ):
        assert wanted(code, needs, topic="t", group="g") == [
            of(ResourceKind.TOPIC, "t", Action.SUB, action),
            of(ResourceKind.GROUP, "g", Action.SUB, action),
        ]


def test_a_replica_reads_the_cluster() -> None:
    expected = of(ResourceKind.CLUSTER, CLUSTER, Action.GET)
    assert wanted(Code.GET_ALL_TOPIC_CONFIG, EVERYTHING) == [expected]
