"""Java clients and mqadmin, signed and unsigned, at servers of ours that want signatures."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from roquet import Admin, Credentials, Message, Producer
from roquet.client.errors import RequestRefused, SendRefused
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    Credentials as JavaCredentials,
    JavaLitePullConsumer,
    JavaProducer,
    JavaPullConsumer,
    JavaPushConsumer,
    JavaTransactionProducer,
    Outgoing,
    Subscription,
    bodies,
)
from tests.support.java_driver import JavaDriver, JavaFailure
from tests.support.our_cluster import OurBroker, OurNameServer

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]
TIMEOUT_S = 20.0

OPERATOR = JavaCredentials("operator", "operator-secret")
SHOP = JavaCredentials("shop-key", "shop-secret-1")
WRITER = JavaCredentials("writer-key", "writer-secret-1")
CLOSED = "closed"
LIAR = JavaCredentials(SHOP.access_key, "not the secret")
STRANGER = JavaCredentials("stranger", "any-secret")

ACCOUNTS = f"""\
accounts:
- accessKey: {OPERATOR.access_key}
  secretKey: {OPERATOR.secret_key}
  admin: true
- accessKey: {SHOP.access_key}
  secretKey: {SHOP.secret_key}
  admin: false
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
  topicPerms:
  - {CLOSED}=DENY
- accessKey: {WRITER.access_key}
  secretKey: {WRITER.secret_key}
  admin: false
  defaultTopicPerm: PUB
"""


class Secured:
    """A name server and a broker that know the same accounts."""

    def __init__(self, directory: Path) -> None:
        self.accounts = directory / "plain_acl.yml"
        self.accounts.write_text(ACCOUNTS)
        self.names = OurNameServer(directory / "names", "--acl-file", str(self.accounts))
        key, secret = OPERATOR
        self.broker = OurBroker(
            directory / "broker",
            self.names.address,
            configuration={
                "aclEnable": "true",
                "aclFile": str(self.accounts),
                "innerClientAuthenticationCredentials": (
                    f'{{"accessKey":"{key}","secretKey":"{secret}"}}'
                ),
                "transactionCheckInterval": "1000",
                "transactionTimeOut": "1000",
            },
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    cluster = Secured(tmp_path_factory.mktemp("secured"))
    with cluster.names, cluster.broker:
        yield cluster


@pytest.fixture(params=list(ApacheVersion), ids=lambda version: f"client-{version}")
def java(
    request: pytest.FixtureRequest, java_drivers: Callable[[ApacheVersion], JavaDriver]
) -> JavaDriver:
    return java_drivers(request.param)


@pytest.fixture
def topic(secured: Secured, java: JavaDriver, new_name: NewName) -> str:
    """Made as operators make them: with a signed mqadmin."""
    name = new_name("topic")
    words = ("-n", secured.names.address, "-b", secured.broker.address, "-t", name)
    said = java.mqadmin("updateTopic", *words, "-r", "1", "-w", "1", credentials=OPERATOR)
    assert "success" in said.output, said
    wait_for_route(secured, name)
    return name


def wait_for_route(secured: Secured, topic: str) -> None:
    """A broker tells its name servers of new topics a moment after whoever made them."""
    with Admin(secured.names.address, credentials=Credentials(*OPERATOR)) as admin:
        wait_until(lambda: topic in admin.topics())


def test_everything_that_clients_do_works_with_a_signature(
    secured: Secured, java: JavaDriver, topic: str, new_name: NewName
) -> None:
    names = secured.names.address
    with (
        JavaProducer(java, names, new_name("producers"), credentials=SHOP) as producer,
        JavaTransactionProducer(java, names, new_name("deciders"), credentials=SHOP) as deciders,
        JavaPushConsumer(
            java, names, new_name("push"), Subscription(topic), failures=1, credentials=SHOP
        ) as pushing,
        JavaLitePullConsumer(
            java, names, new_name("lite"), Subscription(topic), credentials=SHOP
        ) as polling,
        JavaPullConsumer(java, names, new_name("pull"), credentials=SHOP) as pulling,
    ):
        sent = producer.send(Outgoing(topic, b"single", properties={"KEYS": "k"}))
        assert sent.status == "SEND_OK"
        producer.send_oneway(Outgoing(topic, b"one way"))
        producer.send_batch(Outgoing(topic, b"batch 1"), Outgoing(topic, b"batch 2"))
        deciders.send(Outgoing(topic, b"decided"), "COMMIT_MESSAGE")
        deciders.send(Outgoing(topic, b"asked"), "UNKNOW", "COMMIT_MESSAGE")
        expected = {b"single", b"one way", b"batch 1", b"batch 2", b"decided", b"asked"}
        polled: set[bytes] = set()

        def all_are_polled() -> bool:
            polled.update(bodies(polling.poll(1.0)))
            return polled == expected

        wait_until(all_are_polled, TIMEOUT_S)
        polling.commit()
        # Each of them fails once, is sent back, and comes again.
        assert {*bodies(pushing.received(12))} == expected
        (queue,) = pulling.queues(topic)
        assert pulling.max_offset(queue) == 6
        assert len(pulling.pull(queue, pulling.min_offset(queue)).messages) == 6
        pulling.update_consumer_offset(queue, 3)
        assert pulling.consumer_offset(queue) == 3
        assert bodies(producer.query_by_key(topic, "k")) == [b"single"]
        assert sent.offset_id is not None
        assert producer.view(topic, sent.offset_id).body == b"single"
        assert producer.view(topic, sent.message_id).body == b"single"


def test_requests_are_replied_to_without_a_right_on_the_topic_of_replies(
    secured: Secured, java: JavaDriver, topic: str, new_name: NewName
) -> None:
    names = secured.names.address
    with (
        JavaProducer(java, names, new_name("askers"), credentials=SHOP) as asker,
        JavaProducer(java, names, new_name("repliers"), credentials=SHOP) as replier,
        JavaPushConsumer(
            java, names, new_name("push"), Subscription(topic), replier=replier, credentials=SHOP
        ),
    ):
        assert asker.request(Outgoing(topic, b"abc")).body == b"cba"


@pytest.mark.parametrize(
    ("credentials", "reason"),
    [
        (LIAR, "Check signature failed"),
        (STRANGER, "Check signature failed"),
        (None, "No accessKey is configured"),
    ],
    ids=["wrong secret", "unknown key", "unsigned"],
)
def test_one_that_is_not_known_finds_nothing_and_sends_nothing(
    secured: Secured,
    java: JavaDriver,
    topic: str,
    new_name: NewName,
    credentials: JavaCredentials | None,
    reason: str,
) -> None:
    """The name server does not tell the way, and the broker refuses whoever knows it."""
    if credentials is None:
        producer = JavaProducer(java, secured.names.address, new_name("producers"))
    else:
        producer = JavaProducer(
            java, secured.names.address, new_name("producers"), credentials=credentials
        )
    with producer, pytest.raises(JavaFailure):
        producer.send(Outgoing(topic, b"x"))
    words = ("updateTopic", "-n", secured.names.address, "-b", secured.broker.address, "-t", topic)
    said = java.mqadmin(*words, credentials=credentials)
    assert reason in said.complaints


def test_a_denied_client_gets_an_error(
    secured: Secured, java: JavaDriver, topic: str, new_name: NewName
) -> None:
    names = secured.names.address
    code = 1 if java.version is ApacheVersion.V4_9_7 else 16
    with JavaProducer(java, names, new_name("producers"), credentials=SHOP) as producer:
        with pytest.raises(JavaFailure) as caught:
            producer.send(Outgoing(CLOSED, b"x"))
        assert caught.value.code == code
    with (
        JavaProducer(java, names, new_name("producers"), credentials=WRITER) as producer,
        JavaPullConsumer(java, names, new_name("pull"), credentials=WRITER) as pulling,
    ):
        assert producer.send(Outgoing(topic, b"x")).status == "SEND_OK"
        (queue,) = pulling.queues(topic)
        with pytest.raises(JavaFailure, match="No default permission"):
            pulling.pull(queue, 0)
    words = ("updateTopic", "-n", names, "-b", secured.broker.address, "-t", topic)
    assert "Need admin permission" in java.mqadmin(*words, credentials=SHOP).complaints


def test_mqadmin_manages_accounts(
    secured: Secured, java_drivers: Callable[[ApacheVersion], JavaDriver], new_name: NewName
) -> None:
    # Those of 5.5.0 are for users in a database.
    java = java_drivers(ApacheVersion.V4_9_7)
    place = ("-n", secured.names.address, "-b", secured.broker.address)

    def said(command: str, *words: str) -> str:
        result = java.mqadmin(command, *place, *words, credentials=OPERATOR)
        assert "Exception" not in result.complaints, result.complaints
        return result.output

    newcomer = JavaCredentials("newcomer", "newcomer-secret")
    topic = new_name("topic")
    said("updateTopic", "-t", topic, "-r", "1", "-w", "1")
    wait_for_route(secured, topic)
    assert "success" in said(
        "updateAclConfig", "-a", newcomer.access_key, "-s", newcomer.secret_key, "-t",
        f"{topic}=PUB", "-i", "DENY", "-u", "DENY", "-m", "false",
    )  # fmt: skip
    with JavaProducer(java, secured.names.address, topic, credentials=newcomer) as producer:

        def is_sent() -> bool:
            try:
                return producer.send(Outgoing(topic, b"x")).status == "SEND_OK"
            except JavaFailure:
                return False

        # The name server looks at the file once a second.
        wait_until(is_sent, TIMEOUT_S)
        listed = said("getAclConfig")
        assert newcomer.access_key in listed
        assert newcomer.secret_key not in listed
        assert "plain_acl.yml" in said("clusterAclConfigVersion")
        assert "success" in said("updateGlobalWhiteAddr", "-g", "192.0.2.*")
        assert "192.0.2.*" in said("getAclConfig")
        assert "success" in said("deleteAclConfig", "-a", newcomer.access_key)
        with pytest.raises(JavaFailure):
            producer.send(Outgoing(topic, b"x"))


def test_our_own_clients_sign_as_they_do_for_apache(secured: Secured, new_name: NewName) -> None:
    names = secured.names.address
    topic = new_name("topic")
    with Admin(names, credentials=Credentials(*OPERATOR)) as admin:
        admin.create_topic(topic)
    with Producer(names, "shop", credentials=Credentials(*SHOP)) as producer:
        producer.send(Message(topic, b"x"), timeout_s=TIMEOUT_S)
        with pytest.raises(SendRefused, match="No default permission"):
            producer.send(Message(CLOSED, b"x"), timeout_s=TIMEOUT_S)
    with (
        Admin(names, credentials=Credentials(*SHOP)) as admin,
        pytest.raises(RequestRefused, match="permission"),
    ):
        admin.create_topic(new_name("topic"))
