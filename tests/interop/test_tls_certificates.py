"""Java clients that check our certificates: those they do not take, and those that change."""

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread

import pytest

from roquet import Admin, ClientError, Message, Producer, TlsConfig
from tests.support.certificates import DAY, Authority, Holder
from tests.support.encrypting_brokers import broker_showing
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion
from tests.support.java_client import JavaProducer, JavaPushConsumer, Outgoing, Subscription
from tests.support.java_driver import JavaDriver, JavaFailure
from tests.support.our_cluster import OurBroker, OurNameServer

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

NewName = Callable[[str], str]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module", params=list(ApacheVersion), ids=lambda version: f"client-{version}")
def checking_java(
    request: pytest.FixtureRequest,
    authority: Authority,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[JavaDriver]:
    """Clients that encrypt and believe the authority only, as their `tls.properties` says."""
    home = tmp_path_factory.mktemp("java")
    file = home / "tls.properties"
    file.write_text(
        "tls.test.mode.enable=false\ntls.client.authServer=true\n"
        f"tls.client.trustCertPath={authority.certificate}\n"
    )
    settings = {"tls.enable": "true", "tls.config.file": str(file)}
    with JavaDriver(request.param, home, settings) as driver:
        yield driver


def names_showing(directory: Path, holder: Holder) -> OurNameServer:
    files = ("--tls-cert", str(holder.certificate), "--tls-key", str(holder.key))
    return OurNameServer(directory, "--tls", "enforcing", *files)


@pytest.mark.parametrize("what", ["expired", "of another authority"])
def test_a_certificate_that_java_does_not_take_is_reported_on_both_sides(
    checking_java: JavaDriver, authority: Authority, tmp_path: Path, new_name: NewName, what: str
) -> None:
    if what == "expired":
        holder = authority.vouch_for("expired", lifetime=-DAY)
    else:
        holder = Authority(tmp_path, "stranger").vouch_for("other")
    with (
        names_showing(tmp_path / "names", holder) as names,
        JavaProducer(checking_java, names.address, new_name("producers")) as producer,
    ):
        with pytest.raises(JavaFailure):
            producer.send(Outgoing(new_name("topic"), b"x"))
        wait_until(lambda: "it rejects our certificate" in names.log_tail())


def test_java_takes_a_certificate_for_another_host_and_our_clients_do_not(
    checking_java: JavaDriver, authority: Authority, tmp_path: Path, new_name: NewName
) -> None:
    holder = authority.vouch_for("elsewhere", address="10.1.2.3")
    topic = new_name("topic")
    with (
        names_showing(tmp_path / "names", holder) as names,
        broker_showing(tmp_path / "broker", names.address, holder, authority),
        JavaProducer(checking_java, names.address, new_name("producers")) as java,
    ):
        careless = TlsConfig(ca_file=authority.certificate, check_host=False)
        with Admin(names.address, tls=careless) as admin:
            admin.create_topic(topic)
        assert java.send(Outgoing(topic, b"sent all the same")).status == "SEND_OK"
        careful = TlsConfig(ca_file=authority.certificate)
        with (
            Producer(names.address, new_name("producers"), tls=careful) as ours,
            pytest.raises(ClientError, match=r"not valid for '127\.0\.0\.1'"),
        ):
            ours.send(Message(topic, b"kept back"))


def test_certificates_change_under_java_traffic_and_nothing_is_lost(
    checking_java: JavaDriver, authority: Authority, tmp_path: Path, new_name: NewName
) -> None:
    holder = authority.vouch_for("changing")
    tls = TlsConfig(ca_file=authority.certificate)
    topic, group = new_name("topic"), new_name("group")
    sent: list[bytes] = []
    is_over = Event()

    def send_on() -> None:
        while not is_over.is_set():
            body = b"%d" % len(sent)
            assert producer.send(Outgoing(topic, body)).status == "SEND_OK"
            sent.append(body)

    with (
        names_showing(tmp_path / "names", holder) as names,
        broker_showing(tmp_path / "broker", names.address, holder, authority) as broker,
        Admin(names.address, tls=tls) as admin,
    ):
        admin.create_topic(topic)

        def addresses() -> set[str | None]:
            return {each.address for each in admin.members(group).connections}

        with (
            JavaProducer(checking_java, names.address, new_name("producers")) as producer,
            JavaPushConsumer(checking_java, names.address, group, Subscription(topic)) as consumer,
        ):
            sending = Thread(target=send_on)
            sending.start()
            try:
                wait_until(lambda: len(sent) > 20)
                wait_until(addresses)
                before, shown_before = addresses(), shown_by(broker)
                for _ in range(3):
                    authority.vouch_for("changing")
                    for server in (names, broker):
                        server.reload()
                    count = len(sent)
                    wait_until(lambda: len(sent) > count + 20)  # noqa: B023
                assert shown_by(broker) != shown_before
                assert addresses() == before
            finally:
                is_over.set()
                sending.join()
            received = consumer.received(len(sent))
            assert {message.body for message in received} == set(sent)
        # Who comes only now is shown the new one, and takes it.
        with JavaProducer(checking_java, names.address, new_name("late")) as late:
            assert late.send(Outgoing(topic, b"late")).status == "SEND_OK"


def shown_by(server: OurBroker) -> str:
    host, _, port = server.address.partition(":")
    return ssl.get_server_certificate((host, int(port)))
