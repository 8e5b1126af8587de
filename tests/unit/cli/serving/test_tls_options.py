"""Servers that encrypt, as processes: options, files, SIGHUP, and each other."""

import os
import signal
import ssl
from argparse import ArgumentParser
from pathlib import Path

import pytest

from roquet import Admin, Message, Producer, PushConsumer, StartFrom, TlsConfig
from roquet.cli.broker import define as define_broker
from roquet.cli.serving.options import tls_from_file, tls_given
from roquet.client.errors import ClientError
from tests.support.certificates import Authority
from tests.support.command_line import roquet
from tests.support.encrypting_brokers import broker_showing
from tests.support.eventually import wait_until
from tests.support.golden_replication import log_bytes
from tests.support.our_cluster import OurCluster, OurNameServer


def settings_of(*words: str) -> dict[str, str]:
    parser = ArgumentParser()
    define_broker(parser)
    return tls_given(parser.parse_args(words))


def test_options_are_settings_of_apache() -> None:
    assert settings_of() == {}
    assert settings_of(
        *("--tls", "enforcing", "--tls-cert", "a.pem", "--tls-key", "a.key"),
        *("--tls-client-ca", "clients.pem"),
    ) == {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": "a.pem",
        "tls.server.keyPath": "a.key",
        "tls.test.mode.enable": "false",
        "tls.server.trustCertPath": "clients.pem",
        "tls.server.need.client.auth": "require",
        "tls.server.authClient": "true",
    }


@pytest.mark.parametrize("command", ["broker", "namesrv"])
def test_a_mode_that_does_not_exist_is_a_mistake(command: str) -> None:
    finished = roquet(command, "--tls", "sometimes")
    assert finished.exit_code == 2
    assert "'sometimes'" in finished.stderr


def test_a_file_of_apache_says_more_but_not_whether(tmp_path: Path) -> None:
    file = tmp_path / "tls.properties"
    file.write_text("tls.server.certPath=a.pem\ntls.server.mode=disabled\ntls.enable=true\n")
    assert tls_from_file({"tls.config.file": str(file)}) == {"tls.server.certPath": "a.pem"}
    assert tls_from_file({}) == {}  # There is none at its usual place.


@pytest.mark.parametrize("command", ["broker", "namesrv"])
def test_files_that_cannot_be_used_are_one_line(tmp_path: Path, command: str) -> None:
    directory = () if command == "namesrv" else ("--dir", tmp_path / "store")
    missing = tmp_path / "missing.pem"
    finished = roquet(command, "--port", 0, "--tls-cert", missing, *directory)
    assert finished.exit_code == 1
    assert finished.stderr.startswith(f"roquet {command}: TLS cannot use certificate {missing}")
    assert finished.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_cluster_that_only_encrypts_reloads_under_traffic(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    holder = authority.vouch_for()
    tls = TlsConfig(ca_file=authority.certificate)
    options = ("--tls", "enforcing", "--tls-cert", str(holder.certificate))
    received: list[bytes] = []
    with (
        OurNameServer(tmp_path / "names", *options, "--tls-key", str(holder.key)) as names,
        broker_showing(tmp_path / "broker", names.address, holder, authority) as broker,
        Admin(names.address, tls=tls) as admin,
        Producer(names.address, "shop", tls=tls) as producer,
    ):
        admin.create_topic("orders")
        consumer = PushConsumer(
            names.address,
            "billing",
            lambda message: received.append(message.body),
            start_from=StartFrom.FIRST,
            tls=tls,
        )
        consumer.subscribe("orders")
        with consumer:
            producer.send(Message("orders", b"0"))
            wait_until(lambda: len(received) == 1)
            before = shown_by(broker.address)
            authority.vouch_for()
            for server in (names, broker):
                server.reload()
            assert shown_by(broker.address) != before
            for number in range(1, 100):
                producer.send(Message("orders", b"%d" % number))
            wait_until(lambda: len(received) == 100)
            runtime = admin.broker_runtime(broker.address)
        # The first of each queue leave something to decide.
        assert int(runtime["fastSends"]) > 50
        with Admin(names.address) as plain, pytest.raises(ClientError):
            plain.brokers()


def test_files_that_are_broken_at_a_reload_change_nothing(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    holder = authority.vouch_for()
    options = ("--tls-cert", str(holder.certificate), "--tls-key", str(holder.key))
    names = OurNameServer(tmp_path / "names", *options)
    names.start()
    try:
        holder.key.write_text("half of a key")
        os.kill(names.process_id, signal.SIGHUP)
        wait_until(lambda: "certificates not reloaded" in names.log_tail())
        with Admin(names.address, tls=TlsConfig(ca_file=authority.certificate)) as admin:
            assert admin.brokers() == []
    finally:
        names.kill()


def shown_by(address: str) -> str:
    host, _, port = address.partition(":")
    return ssl.get_server_certificate((host, int(port)))


@pytest.mark.slow
def test_a_cluster_for_trying_things_out_names_its_certificate(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    certificate = directory / "tls" / "certificate.pem"
    for _ in range(2):  # The second time it is there already.
        with OurCluster(tmp_path, "--tls", "--dir", str(directory)) as cluster:
            assert cluster.ready_line.endswith(f" tls-ca={certificate}")
            with Producer(
                cluster.name_server, "shop", tls=TlsConfig(ca_file=certificate)
            ) as producer:
                producer.send(Message("orders", b"secret"))
            with (
                Producer(cluster.name_server, "shop") as plain,
                pytest.raises(ClientError),
            ):
                plain.send(Message("orders", b"open"), timeout_s=1.0)
    assert (directory / "tls" / "key.pem").stat().st_mode & 0o777 == 0o600


@pytest.mark.slow
def test_replicas_that_only_encrypt_have_log_and_tables_of_their_master(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    master, slave = directory / "broker-a", directory / "broker-a-slave-1"
    words = ("--tls", "--replicas", "1", "--dir", str(directory))
    with OurCluster(tmp_path, *words) as cluster:
        tls = TlsConfig(ca_file=directory / "tls" / "certificate.pem")
        with Admin(cluster.name_server, tls=tls) as admin:
            admin.create_topic("orders")
        with Producer(cluster.name_server, "shop", tls=tls) as producer:
            for number in range(20):
                producer.send(Message("orders", b"%d" % number))
        wait_until(lambda: log_bytes(slave) == log_bytes(master))
        # No plain port of the master would have returned it.
        wait_until(lambda: "orders" in written(slave / "config" / "topics.json"))
        assert "refusing slave" not in cluster.log_tail()


def written(file: Path) -> str:
    return file.read_text() if file.exists() else ""


@pytest.mark.slow
def test_without_options_a_client_that_wants_to_is_encrypted(tmp_path: Path) -> None:
    with (
        OurCluster(tmp_path) as cluster,
        Producer(cluster.name_server, "shop", tls=TlsConfig(verify=False)) as encrypted,
        Producer(cluster.name_server, "shop") as plain,
    ):
        for producer in (encrypted, plain):
            producer.send(Message("orders", b"x"))
