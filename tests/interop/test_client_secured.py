"""Our clients at an Apache broker that wants signatures and speaks TLS: all kinds of them."""

from collections.abc import Iterator

import pytest

from roquet import (
    Admin,
    Credentials,
    Message,
    Producer,
    PullConsumer,
    PushConsumer,
    QueueRef,
    StartFrom,
    TlsConfig,
    TopicReader,
    TopicSettings,
)
from roquet.client.errors import MessageNotFound, RequestRefused, SendRefused
from roquet.protocol.messages.record import split_records
from tests.support.apache import ApacheBroker, ApacheNameServer
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.tls_server import CERTIFICATE

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

TIMEOUT_S = 20.0
TOPIC, CLOSED = "orders", "closed"
OPERATOR = Credentials("operator", "operator-secret")
SHOP = Credentials("shop-key", "shop-secret-1")
# Access control of this form ended with 4.x.
VERSION = ApacheVersion.V4_9_7
TRUSTING = TlsConfig(ca_file=CERTIFICATE)

ACCOUNTS = f"""\
globalWhiteRemoteAddresses: []
accounts:
- accessKey: {OPERATOR.access_key}
  secretKey: {OPERATOR.secret_key}
  whiteRemoteAddress:
  admin: true
- accessKey: {SHOP.access_key}
  secretKey: {SHOP.secret_key}
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: PUB|SUB
  defaultGroupPerm: SUB
  topicPerms:
  - {CLOSED}=DENY
"""


@pytest.fixture(scope="module")
def name_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("secured")
    properties = {
        "tls.server.mode": "permissive",  # as it is by default, but not in tests
        "tls.test.mode.enable": "false",
        "tls.server.certPath": str(CERTIFICATE),
        "tls.server.keyPath": str(CERTIFICATE),
    }
    configuration = directory / "broker" / "conf"
    configuration.mkdir(parents=True)
    (configuration / "plain_acl.yml").write_text(ACCOUNTS)
    with (
        ApacheNameServer(VERSION, directory / "names", properties) as names,
        ApacheBroker(
            VERSION,
            directory / "broker",
            names.address,
            configuration={"aclEnable": "true"},
            properties=properties,
        ),
        Admin(names.address, credentials=OPERATOR, tls=TRUSTING) as admin,
    ):
        for topic in (TOPIC, CLOSED):
            admin.create_topic(topic, TopicSettings(read_queue_count=2, write_queue_count=2))
        yield names.address


def test_all_clients_sign_and_encrypt(name_server: str) -> None:
    bodies = {b"%d" % number for number in range(20)}
    with Producer(name_server, "shop", credentials=SHOP, tls=TRUSTING) as producer:
        for body in bodies:
            producer.send(Message(TOPIC, body), timeout_s=TIMEOUT_S)
    pushed: set[bytes] = set()
    pushing = PushConsumer(
        name_server,
        "push",
        lambda message: pushed.add(message.body),
        start_from=StartFrom.FIRST,
        credentials=SHOP,
        tls=TRUSTING,
    )
    pushing.subscribe(TOPIC)
    polling = PullConsumer(
        name_server,
        "pull",
        start_from=StartFrom.FIRST,
        credentials=SHOP,
        tls=TRUSTING,
    )
    polling.subscribe(TOPIC)
    polled: set[bytes] = set()

    def all_are_here() -> bool:
        polled.update(message.body for message in polling.poll(timeout_s=0.2))
        return pushed == polled == bodies

    with pushing, polling:
        wait_until(all_are_here)
        polling.commit()


def test_a_message_is_found_by_its_id_with_a_signature(name_server: str) -> None:
    with (
        Producer(name_server, "shop", credentials=SHOP, tls=TRUSTING) as producer,
        Admin(name_server, credentials=OPERATOR, tls=TRUSTING) as admin,
    ):
        receipt = producer.send(Message(TOPIC, b"found"), timeout_s=TIMEOUT_S)

        def is_found() -> bool:
            try:
                return admin.message(TOPIC, receipt.message_id).body == b"found"
            except MessageNotFound:
                return False

        wait_until(is_found)


def test_a_topic_reader_signs_and_encrypts(name_server: str) -> None:
    bodies = {b"read %d" % number for number in range(100)}
    with (
        Producer(name_server, "shop", credentials=SHOP, tls=TRUSTING) as producer,
        TopicReader(name_server, group="readers", credentials=SHOP, tls=TRUSTING) as reader,
    ):
        queue = reader.queues(TOPIC)[1]
        start = reader.bounds([queue])[queue].max_offset
        messages = [Message(TOPIC, body) for body in bodies]
        producer.send_batch(messages, queue=queue, timeout_s=TIMEOUT_S)
        wait_until(lambda: reader.bounds([queue])[queue].max_offset == start + 100)
        found = reader.records(queue, start, start + 100)
        assert {each.body for chunk in found for each in split_records(chunk.data)} == bodies
        reader.commit("readers", {queue: start + 50})
        assert reader.committed("readers", [queue]) == {queue: start + 50}
        with pytest.raises(RequestRefused):
            list(reader.records(QueueRef(CLOSED, queue.broker_name, 0), 0, 1))


def test_a_denied_client_gets_an_error(name_server: str) -> None:
    with (
        Producer(name_server, "shop", credentials=SHOP, tls=TRUSTING) as producer,
        pytest.raises(SendRefused, match=r"(?i)permission|no.*access"),
    ):
        producer.send(Message(CLOSED, b"x"), timeout_s=TIMEOUT_S)
    liar = Credentials(SHOP.access_key, "not the secret")
    with (
        Producer(name_server, "shop", credentials=liar, tls=TRUSTING) as producer,
        pytest.raises(SendRefused, match=r"(?i)signature"),
    ):
        producer.send(Message(TOPIC, b"x"), timeout_s=TIMEOUT_S)
    with (
        Admin(name_server, credentials=SHOP, tls=TRUSTING) as admin,
        pytest.raises(RequestRefused),
    ):
        admin.create_topic("mine")
