"""Users and policies of 5.x (ACL 2.0): Apache's tool and our clients, at its broker and at ours.

Each claim runs against both, so that ours decides as Apache's does.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from roquet import Admin, Credentials, Message, Producer, PullConsumer, StartFrom, TopicSettings
from roquet.client.errors import RequestRefused, SendRefused
from roquet.protocol.codes import ResponseCode
from tests.support.apache import CLUSTER_NAME, ApacheBroker, ApacheNameServer
from tests.support.apache_accounts import OPERATOR, USERS
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_driver import AdminOutput, JavaDriver
from tests.support.our_cluster import OurBroker, OurNameServer
from tests.support.raising import raises

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("users")]

NewName = Callable[[str], str]
VERSION = ApacheVersion.V5_5_0
TIMEOUT_S = 20.0
FAILED = "SubCommandException"


class Place(NamedTuple):
    name_server: str
    broker: str
    is_apache: bool


@pytest.fixture(scope="module", params=["apache", "ours"])
def place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Place]:
    directory = tmp_path_factory.mktemp("users")
    if request.param == "apache":
        with (
            ApacheNameServer(VERSION, directory / "names") as names,
            ApacheBroker(VERSION, directory / "broker", names.address, configuration=USERS) as it,
        ):
            yield Place(names.address, it.address, is_apache=True)
    else:
        with (
            OurNameServer(directory / "names") as our_names,
            OurBroker(directory / "broker", our_names.address, configuration=USERS) as ours,
        ):
            yield Place(our_names.address, ours.address, is_apache=False)


class Tool:
    """mqadmin, as the operator unless another user is named."""

    def __init__(self, java: JavaDriver, place: Place) -> None:
        self._java = java
        self._place = place

    def run(self, command: str, *words: str, as_user: Credentials = OPERATOR) -> list[list[str]]:
        """The words of each printed line, without the heading."""
        said = self._said(command, *words, as_user=as_user)
        assert FAILED not in said.complaints, said.complaints
        lines = [line.split() for line in said.output.splitlines()]
        return [line for line in lines if line and not line[0].startswith("#")]

    def refusal(self, command: str, *words: str, as_user: Credentials = OPERATOR) -> int:
        """The response code that a command fails with."""
        said = self._said(command, *words, as_user=as_user)
        assert "CODE: " in said.complaints, said
        return int(said.complaints.rpartition("CODE: ")[2].split()[0])

    def _said(self, command: str, *words: str, as_user: Credentials) -> AdminOutput:
        return self._java.mqadmin(
            command,
            *("-n", self._place.name_server, "-b", self._place.broker, *words),
            credentials=(as_user.access_key, as_user.secret_key),
        )


@pytest.fixture(scope="module")
def tool(java_drivers: Callable[[ApacheVersion], JavaDriver], place: Place) -> Tool:
    return Tool(java_drivers(VERSION), place)


@pytest.fixture
def user(tool: Tool, new_name: NewName) -> Credentials:
    """A normal user without policies."""
    found = Credentials(new_name("user"), "its-password")
    tool.run("createUser", "-u", found.access_key, "-p", found.secret_key)
    return found


def _allow(tool: Tool, user: Credentials, resources: str, actions: str, *more: str) -> None:
    _decide(tool, user, resources, actions, "Allow", *more)


def _decide(
    tool: Tool, user: Credentials, resources: str, actions: str, decision: str, *more: str
) -> None:
    subject = f"User:{user.access_key}"
    tool.run("createAcl", "-s", subject, "-r", resources, "-a", actions, "-d", decision, *more)


def test_a_user_is_shown_changed_and_deleted(tool: Tool, user: Credentials) -> None:
    name = user.access_key
    assert tool.run("getUser", "-u", name) == [[name, "its-password", "Normal", "enable"]]
    # One thing at a time: the tool has no other form.
    tool.run("updateUser", "-u", name, "-t", "Super")
    tool.run("updateUser", "-u", name, "-s", "disable")
    shown = [name, "its-password", "Super", "disable"]
    assert tool.run("getUser", "-u", name) == [shown]
    assert shown in tool.run("listUser")
    assert tool.run("listUser", "-f", name) == [shown]
    tool.run("deleteUser", "-u", name)
    assert tool.run("getUser", "-u", name) == []


def test_the_first_user_is_super(tool: Tool) -> None:
    assert tool.run("getUser", "-u", OPERATOR.access_key) == [
        [OPERATOR.access_key, OPERATOR.secret_key, "Super", "enable"]
    ]


@pytest.mark.parametrize(
    "words",
    [
        "createUser -u {user} -p again",
        "updateUser -u unheard-of -s enable",
        "createAcl -s User:unheard-of -r Topic:a -a Pub -d Allow",
        "createAcl -s User:{user} -r Nonsense:a -a Pub -d Allow",
        "createAcl -s User:{user} -r Topic:a -a Nonsense -d Allow",
        "createAcl -s User:{user} -r Topic:a -a Pub -d Maybe",
        "createAcl -s User:{user} -r Topic:a -a Pub -d Allow -i nonsense",
        "getAcl -s User:unheard-of",
        "deleteAcl -s User:{user}",
    ],
)
def test_a_bad_change_is_refused(tool: Tool, user: Credentials, words: str) -> None:
    code = tool.refusal(*words.format(user=user.access_key).split())
    assert code == ResponseCode.NO_PERMISSION


def test_policies_are_shown_replaced_and_deleted(tool: Tool, user: Credentials) -> None:
    subject = f"User:{user.access_key}"
    _allow(tool, user, "Topic:orders,Group:billing", "Pub,Sub")
    _decide(tool, user, "Topic:o*", "Sub", "Deny", "-i", "10.0.0.0/8,192.168.1.1")
    first = [subject, "Custom", "Topic:orders", "[Pub,", "Sub]", "null", "Allow"]
    group = [subject, "Custom", "Group:billing", "[Pub,", "Sub]", "null", "Allow"]
    prefixed = [subject, "Custom", "Topic:o*", "[Sub]", "[10.0.0.0/8,", "192.168.1.1]", "Deny"]
    assert tool.run("getAcl", "-s", subject) == [first, group, prefixed]
    tool.run("updateAcl", "-s", subject, "-r", "Topic:orders", "-a", "Pub", "-d", "Deny")
    first = [subject, "Custom", "Topic:orders", "[Pub]", "null", "Deny"]
    assert tool.run("getAcl", "-s", subject) == [first, group, prefixed]
    assert tool.run("listAcl", "-s", user.access_key) == [first, group, prefixed]
    assert tool.run("listAcl", "-s", user.access_key, "-r", "Group") == [group]
    tool.run("deleteAcl", "-s", subject, "-r", "Topic:o*")
    assert tool.run("getAcl", "-s", subject) == [first, group]
    tool.run("deleteAcl", "-s", subject)
    assert tool.run("getAcl", "-s", subject) == []


def test_policies_end_with_their_user(tool: Tool, user: Credentials) -> None:
    _allow(tool, user, "Topic:orders", "Pub")
    tool.run("deleteUser", "-u", user.access_key)
    assert tool.run("listAcl", "-s", user.access_key) == []


def test_users_and_policies_are_copied(
    java_drivers: Callable[[ApacheVersion], JavaDriver], place: Place, tool: Tool, user: Credentials
) -> None:
    """To the same broker, which has them already: the tool reads what it would write."""
    _allow(tool, user, "Topic:orders", "Pub")
    for command, option, name in (
        ("copyUser", "-u", user.access_key),
        ("copyAcl", "-s", f"User:{user.access_key}"),
    ):
        said = java_drivers(VERSION).mqadmin(
            *(command, "-n", place.name_server, "-f", place.broker, "-t", place.broker),
            *(option, name),
            credentials=(OPERATOR.access_key, OPERATOR.secret_key),
        )
        assert "success" in said.output


class Decided(NamedTuple):
    """Resources with actions and decisions, and whether that lets a user create topic t-orders."""

    policies: list[tuple[str, str, str]]
    is_allowed: bool
    sources: tuple[str, ...] = ()


DECISIONS = {
    "nothing": Decided([], is_allowed=False),
    "literal": Decided([("Topic:t-orders", "Create", "Allow")], is_allowed=True),
    "another name": Decided([("Topic:t-order", "Create", "Allow")], is_allowed=False),
    "prefix": Decided([("Topic:t-*", "Create", "Allow")], is_allowed=True),
    "any topic": Decided([("Topic:*", "Create", "Allow")], is_allowed=True),
    "anything": Decided([("*", "Create", "Allow")], is_allowed=True),
    "all actions": Decided([("Topic:t-orders", "All", "Allow")], is_allowed=True),
    "another action": Decided([("Topic:t-orders", "Pub,Sub,Get", "Allow")], is_allowed=False),
    "another kind": Decided([("Group:t-orders", "Create", "Allow")], is_allowed=False),
    "literal over prefix": Decided(
        [("Topic:t-*", "All", "Deny"), ("Topic:t-orders", "Create", "Allow")], is_allowed=True
    ),
    "literal denies": Decided(
        [("Topic:t-*", "All", "Allow"), ("Topic:t-orders", "Create", "Deny")], is_allowed=False
    ),
    "longer prefix": Decided(
        [("Topic:t-*", "All", "Deny"), ("Topic:t-ord*", "All", "Allow")], is_allowed=True
    ),
    "prefix over any": Decided(
        [("Topic:*", "All", "Deny"), ("Topic:t-*", "All", "Allow")], is_allowed=True
    ),
    "kind over anything": Decided(
        [("*", "All", "Deny"), ("Topic:*", "All", "Allow")], is_allowed=True
    ),
    "other actions do not decide": Decided(
        [("Topic:t-orders", "Delete", "Deny"), ("Topic:t-*", "Create", "Allow")], is_allowed=True
    ),
    "from here": Decided(
        [("Topic:t-orders", "Create", "Allow")], is_allowed=True, sources=("-i", "127.0.0.1")
    ),
    "from a network": Decided(
        [("Topic:t-orders", "Create", "Allow")], is_allowed=True, sources=("-i", "127.0.0.0/8")
    ),
    "from elsewhere": Decided(
        [("Topic:t-orders", "Create", "Allow")], is_allowed=False, sources=("-i", "10.0.0.0/8")
    ),
}


@pytest.mark.parametrize("case", DECISIONS)
def test_the_most_specific_policy_decides(tool: Tool, user: Credentials, case: str) -> None:
    policies, is_allowed, sources = DECISIONS[case]
    for resource, actions, decision in policies:
        _decide(tool, user, resource, actions, decision, *sources)
    if is_allowed:
        tool.run("updateTopic", "-t", "t-orders", as_user=user)
    else:
        code = tool.refusal("updateTopic", "-t", "t-orders", as_user=user)
        assert code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("secret", ["its-password", "another"])
def test_a_disabled_user_and_a_wrong_password_are_refused(
    tool: Tool, user: Credentials, secret: str
) -> None:
    tool.run("updateUser", "-u", user.access_key, "-t", "Super")
    tool.run("updateUser", "-u", user.access_key, "-s", "disable")
    wrong = Credentials(user.access_key, secret)
    assert tool.refusal("listUser", as_user=wrong) == ResponseCode.NO_PERMISSION
    tool.run("updateUser", "-u", user.access_key, "-s", "enable")
    if secret == user.secret_key:
        assert tool.run("listUser", as_user=user)


def test_the_cluster_is_a_resource(tool: Tool, user: Credentials) -> None:
    _allow(tool, user, "Cluster:another", "Get")
    assert tool.refusal("listUser", as_user=user) == ResponseCode.NO_PERMISSION
    _allow(tool, user, f"Cluster:{CLUSTER_NAME}", "Get")
    assert tool.run("listUser", as_user=user)
    refused = tool.refusal("deleteUser", "-u", "any", as_user=user)
    assert refused == ResponseCode.NO_PERMISSION


def test_a_user_sends_and_consumes_what_its_policies_allow(
    place: Place, tool: Tool, user: Credentials, new_name: NewName
) -> None:
    topic, closed, group = new_name("topic"), new_name("closed"), new_name("group")
    with Admin(place.name_server, credentials=OPERATOR) as admin:
        for each in (topic, closed):
            admin.create_topic(each, TopicSettings(read_queue_count=1, write_queue_count=1))
    _allow(tool, user, f"Topic:{topic}", "Pub,Sub,Get")
    _allow(tool, user, f"Group:{group}", "Sub,Get")
    with Producer(place.name_server, "any", credentials=user) as producer:
        producer.send(Message(topic, b"body"), timeout_s=TIMEOUT_S)
        with pytest.raises((SendRefused, RequestRefused)):
            producer.send(Message(closed, b"body"), timeout_s=TIMEOUT_S)
    consumer = PullConsumer(place.name_server, group, start_from=StartFrom.FIRST, credentials=user)
    consumer.subscribe(topic)
    found: list[bytes] = []

    def is_here() -> bool:
        found.extend(message.body for message in consumer.poll(timeout_s=0.2))
        return bool(found)

    with consumer:
        wait_until(is_here)
    assert found == [b"body"]


def test_settings_are_for_users_with_a_right_on_the_cluster(
    place: Place, tool: Tool, user: Credentials
) -> None:
    """Apache's broker lets every user change them."""
    with Admin(place.name_server, credentials=user) as admin:
        if place.is_apache:
            admin.update_broker_config(place.broker, {"traceOn": "true"})
            return
        with raises(RequestRefused, code=ResponseCode.NO_PERMISSION):
            admin.update_broker_config(place.broker, {"traceOn": "true"})
    _allow(tool, user, f"Cluster:{CLUSTER_NAME}", "Update")
    with Admin(place.name_server, credentials=user) as admin:
        admin.update_broker_config(place.broker, {"fileReservedTime": "72"})
