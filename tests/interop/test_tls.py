"""Java clients that encrypt, at our servers, in the three modes."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.certificates import Authority
from tests.support.jars import ApacheVersion
from tests.support.java_client import (
    JavaProducer,
    JavaPullConsumer,
    JavaPushConsumer,
    Outgoing,
    Subscription,
)
from tests.support.java_driver import JavaDriver, JavaFailure
from tests.support.our_cluster import OurBroker, OurCluster, OurNameServer
from tests.support.topics import create_topic

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]
LARGE = b"0123456789" * 20_000


@pytest.fixture(params=list(ApacheVersion), ids=lambda version: f"client-{version}")
def version(request: pytest.FixtureRequest) -> ApacheVersion:
    chosen: ApacheVersion = request.param
    return chosen


@pytest.fixture
def trusting_java(version: ApacheVersion, tmp_path: Path) -> Iterator[JavaDriver]:
    """Clients that encrypt and believe everybody, as Java's do by default."""
    home = tmp_path / "java"
    home.mkdir()
    with JavaDriver(version, home, {"tls.enable": "true"}) as driver:
        yield driver


def sent_and_received(java: JavaDriver, names: str, topic: str, group: str) -> None:
    bodies = {b"small", LARGE}
    with (
        JavaProducer(java, names, f"{group}-producers") as producer,
        JavaPushConsumer(java, names, group, Subscription(topic)) as consumer,
        JavaPullConsumer(java, names, f"{group}-pullers") as puller,
    ):
        for body in bodies:
            sent = producer.send(Outgoing(topic, body))
            assert sent.status == "SEND_OK"
        assert {message.body for message in consumer.received(2)} == bodies
        (queue,) = puller.queues(topic)
        assert puller.max_offset(queue) == 2


def test_with_the_defaults_of_both_sides_some_encrypt_and_some_do_not(
    trusting_java: JavaDriver,
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    tmp_path: Path,
    new_name: NewName,
) -> None:
    with OurCluster(tmp_path / "ours") as ours:
        for java in (trusting_java, java_drivers(trusting_java.version)):
            topic = new_name("topic")
            create_topic(ours.broker, topic)
            sent_and_received(java, ours.name_server, topic, new_name("group"))
        clusters = trusting_java.mqadmin("clusterList", "-n", ours.name_server)
        assert ours.broker in clusters.output


def test_where_tls_is_enforced_both_sides_check_each_other(
    version: ApacheVersion,
    java_drivers: Callable[[ApacheVersion], JavaDriver],
    tmp_path: Path,
    new_name: NewName,
) -> None:
    authority = Authority(tmp_path)
    server, client = authority.vouch_for("server"), authority.vouch_for("client")
    trusted = str(authority.certificate)
    options = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": str(server.certificate),
        "tls.server.keyPath": str(server.key),
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
        "tls.server.trustCertPath": trusted,
        "tls.test.mode.enable": "false",
    }
    as_client = {
        "tls.enable": "true",
        "tls.test.mode.enable": "false",
        "tls.client.certPath": str(client.certificate),
        "tls.client.keyPath": str(client.key),
        "tls.client.authServer": "true",
        "tls.client.trustCertPath": trusted,
    }
    file = tmp_path / "namesrv.conf"
    file.write_text("".join(f"{key}={text}\n" for key, text in options.items()))
    home = tmp_path / "java"
    home.mkdir()
    topic = new_name("topic")
    with (
        OurNameServer(tmp_path / "names", "-c", str(file)) as names,
        OurBroker(tmp_path / "ours", names.address, configuration=options | as_client) as broker,
        JavaDriver(version, home, as_client) as java,
    ):
        made = java.mqadmin(
            *("updateTopic", "-n", names.address, "-b", broker.address, "-t", topic),
            *("-r", "1", "-w", "1"),
        )
        assert "success" in made.output
        sent_and_received(java, names.address, topic, new_name("group"))
        with (
            JavaProducer(java_drivers(version), names.address, new_name("plain")) as plain,
            pytest.raises(JavaFailure),
        ):
            plain.send(Outgoing(topic, b"open"))


def test_where_tls_is_disabled_a_client_that_requires_it_gets_nothing(
    trusting_java: JavaDriver, tmp_path: Path, new_name: NewName
) -> None:
    with (
        OurNameServer(tmp_path / "names", "--tls", "disabled") as names,
        JavaProducer(trusting_java, names.address, new_name("producers")) as producer,
    ):
        with pytest.raises(JavaFailure):
            producer.send(Outgoing(new_name("topic"), b"x"))
        assert "it speaks TLS, which is disabled here" in names.log_tail()
