"""Settings of encrypted connections, as Apache names them."""

from pathlib import Path

import pytest

from roquet.net.tls.settings import (
    TLS_KEYS,
    ClientCertificates,
    TlsFiles,
    TlsMode,
    TlsSettings,
    read_tls,
)
from roquet.settings.options import ConfigError
from tests.support.raising import raises

ALL = {
    "tls.server.mode": "Enforcing",
    "tls.server.certPath": "server.pem",
    "tls.server.keyPath": " server.key ",
    "tls.server.keyPassword": "secret of the server",
    "tls.server.trustCertPath": "clients.pem",
    "tls.server.need.client.auth": "require",
    "tls.server.authClient": "true",
    "tls.test.mode.enable": "False",
    "tls.config.file": "tls.properties",
    "tls.enable": "true",
    "useTLS": "false",
    "tls.client.certPath": "client.pem",
    "tls.client.keyPath": "client.key",
    "tls.client.keyPassword": "secret of the client",
    "tls.client.trustCertPath": "servers.pem",
    "tls.client.authServer": "true",
}


def test_every_name_is_obeyed_and_the_rest_is_left() -> None:
    assert ALL.keys() == TLS_KEYS
    settings, others = read_tls(ALL | {"listenPort": "10911"})
    assert others == {"listenPort": "10911"}
    assert settings == TlsSettings(
        mode=TlsMode.ENFORCING,
        server=TlsFiles(
            certificate=Path("server.pem"),
            key=Path("server.key"),
            key_password="secret of the server",
            trusted=Path("clients.pem"),
        ),
        client_certificates=ClientCertificates.REQUIRED,
        check_clients=True,
        is_test=False,
        encrypt_calls=True,
        client=TlsFiles(
            certificate=Path("client.pem"),
            key=Path("client.key"),
            key_password="secret of the client",
            trusted=Path("servers.pem"),
        ),
        check_servers=True,
    )


def test_passwords_are_not_shown() -> None:
    settings, _ = read_tls(ALL)
    assert "secret" not in repr(settings)
    assert "server.pem" in repr(settings)


def test_what_is_empty_is_not_reported() -> None:
    assert read_tls(dict.fromkeys(ALL, " ")) == (TlsSettings(), {})


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("tls.server.mode", "enforced"),
        ("tls.enable", "yes"),
        ("tls.server.need.client.auth", "required"),
        ("tls.test.mode.enable", "0"),
    ],
)
def test_what_java_would_take_for_something_else_is_refused(key: str, text: str) -> None:
    with raises(ConfigError, key=key, text=text) as caught:
        read_tls({key: text})
    assert (caught.value.key, caught.value.text) == (key, text)


def test_certificates_that_would_not_be_verified_are_not_requested() -> None:
    with pytest.raises(ConfigError, match=r"tls\.server\.trustCertPath"):
        read_tls({"tls.server.need.client.auth": "require"})
    assert read_tls({"tls.server.need.client.auth": "optional"})


@pytest.mark.parametrize(
    ("settings", "is_self_signed", "has_files"),
    [
        ({}, True, False),
        ({"tls.server.certPath": "a.pem"}, False, True),
        ({"tls.server.certPath": "a.pem", "tls.test.mode.enable": "true"}, True, False),
        ({"tls.server.certPath": "a.pem", "tls.server.mode": "disabled"}, False, False),
        ({"tls.enable": "true"}, True, False),
        ({"tls.enable": "true", "tls.client.trustCertPath": "a.pem"}, True, True),
    ],
)
def test_a_certificate_that_is_named_is_used(
    settings: dict[str, str], is_self_signed: bool, has_files: bool
) -> None:
    read, _ = read_tls(settings)
    assert (read.is_self_signed, read.has_files) == (is_self_signed, has_files)
