"""What is wrong with topics, and what helps: as decisions about answers."""

import pytest

from roquet.client.admin.doctor import topics
from roquet.client.admin.doctor.finding import Severity
from roquet.client.admin.topics import BrokerRoute, TopicSettings
from roquet.protocol.codes import Permission
from tests.support.doctor_findings import bad

READ_WRITE = Permission.READ | Permission.WRITE


def route(permission: Permission = READ_WRITE, read: int = 4, write: int = 4) -> BrokerRoute:
    return BrokerRoute("a", "c", {0: "10.0.0.1:1"}, read, write, permission)


@pytest.mark.parametrize(
    ("found_route", "found"),
    [
        (route(), []),
        (
            route(Permission.READ),
            ["problem: no broker accepts messages for it"],
        ),
        (route(Permission.WRITE), ["problem: reads are forbidden at a"]),
        (
            route(read=2),
            [
                (
                    "problem: 4 write queues but only 2 read queues at a: "
                    "messages of the others are not delivered"
                )
            ],
        ),
    ],
)
def test_problems_of_a_topic(found_route: BrokerRoute, found: list[str]) -> None:
    settings = {"a": TopicSettings()}
    assert bad([*topics.of_topic_routes("t", [found_route], settings)]) == found


@pytest.mark.parametrize(
    ("forbidden", "found"), [((), ["warning: writes are forbidden at a"]), (("a",), [])]
)
def test_writes_that_a_broker_forbids_to_all_topics_are_its_finding(
    forbidden: tuple[str, ...], found: list[str]
) -> None:
    other = BrokerRoute("b", "c", {0: "10.0.0.2:1"}, 4, 4, READ_WRITE)
    settings = {"a": TopicSettings(), "b": TopicSettings()}
    routes = [route(Permission.READ), other]
    assert bad([*topics.of_topic_routes("t", routes, settings, forbidden)]) == found


def test_a_missing_topic_is_a_problem_unless_sends_make_it() -> None:
    assert topics.missing_topic("t", is_made_by_sends=True).severity is Severity.WARNING
    assert topics.missing_topic("t", is_made_by_sends=False).severity is Severity.PROBLEM
