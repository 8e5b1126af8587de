"""How jobs reach brokers: credentials, secrets and TLS."""

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from roquet import Admin, Message, Producer, TlsConfig
from roquet.cli.spark.arguments import broker_options, define_brokers
from roquet.pipeline.errors import BadOption
from tests.support.command_line import roquet
from tests.support.our_cluster import OurCluster

ORDERS = "orders"
# What each job needs besides brokers; `{}` is a directory.
JOBS = {
    "ingest": "--topic orders --lake {}/lake --checkpoint {}/checkpoint",
    "export": "--topic orders --to {}/files",
    "replay": "--topic orders --to orders",
    "dlq-report": "--group billing",
    "audit": "--topic orders --group billing",
}


def options(*words: str | Path) -> dict[str, str]:
    return resolved("-n", "localhost:9876", *words)


def resolved(*words: str | Path) -> dict[str, str]:
    parser = ArgumentParser()
    define_brokers(parser)
    return broker_options(parser.parse_args([*map(str, words)]))


@pytest.fixture(autouse=True)
def config_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Of a file that says nothing."""
    for name in ("ROQUET_ACCESS_KEY", "ROQUET_SECRET_KEY", "ROQUET_SECURITY_TOKEN", "NAMESRV_ADDR"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "roquet.toml"
    path.touch()
    monkeypatch.setenv("ROQUET_CONFIG", str(path))
    return path


def test_nothing_is_signed_or_encrypted_unless_it_is_asked_for() -> None:
    assert options() == {"nameServer": "localhost:9876"}


def test_brokers_are_found_where_operators_commands_find_them(
    monkeypatch: pytest.MonkeyPatch, config_path: Path
) -> None:
    assert resolved() == {"nameServer": "127.0.0.1:9876"}
    config_path.write_text('name_server = "kept:9876"')
    assert resolved() == {"nameServer": "kept:9876"}
    monkeypatch.setenv("NAMESRV_ADDR", "around:9876")
    assert resolved() == {"nameServer": "around:9876"}
    assert options() == {"nameServer": "localhost:9876"}


def test_keys_and_authorities_are_found_in_the_file_of_operators_commands(
    monkeypatch: pytest.MonkeyPatch, config_path: Path
) -> None:
    config_path.write_text(
        '[credentials]\naccess_key = "me"\nsecret_key = "of mine"\n[tls]\nca_file = "/ca.pem"\n'
    )
    kept = {"accessKey": "me", "secretKey": "of mine", "tls": "true", "tlsCaFile": "/ca.pem"}
    assert options() == {"nameServer": "localhost:9876", **kept}
    monkeypatch.setenv("ROQUET_ACCESS_KEY", "others")
    monkeypatch.setenv("ROQUET_SECRET_KEY", "of others")
    assert options()["accessKey"] == "others"


def test_what_jobs_cannot_do_of_that_file_is_reported(config_path: Path) -> None:
    config_path.write_text("[tls]\ncheck_host = false\n")
    with pytest.raises(BadOption, match="ca_file"):
        options()


def test_a_secret_is_read_from_a_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("of mine\n")
    found = options("--access-key", "me", "--secret-key-file", secret)
    assert (found["accessKey"], found["secretKey"]) == ("me", "of mine")


def test_keys_are_found_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROQUET_ACCESS_KEY", "me")
    monkeypatch.setenv("ROQUET_SECRET_KEY", "of mine")
    monkeypatch.setenv("ROQUET_SECURITY_TOKEN", "lent")
    found = options()
    assert (found["accessKey"], found["secretKey"]) == ("me", "of mine")
    assert found["securityToken"] == "lent"


def test_what_is_given_counts_more_than_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ROQUET_ACCESS_KEY", "me")
    monkeypatch.setenv("ROQUET_SECRET_KEY", "of mine")
    (tmp_path / "secret").write_text("of others")
    found = options("--access-key", "others", "--secret-key-file", tmp_path / "secret")
    assert (found["accessKey"], found["secretKey"]) == ("others", "of others")


@pytest.mark.parametrize("content", [b"", b" \n", b"two\nlines", b"\xff\xfe"])
def test_a_file_without_a_secret_is_named_and_not_shown(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "secret").write_bytes(content)
    with pytest.raises(BadOption, match="secret has no secret key"):
        options("--access-key", "me", "--secret-key-file", tmp_path / "secret")


@pytest.mark.parametrize(
    ("words", "variables", "reason"),
    [
        (("--access-key", "me"), {}, "ROQUET_SECRET_KEY"),
        ((), {"ROQUET_SECRET_KEY": "of mine"}, "ROQUET_ACCESS_KEY"),
        ((), {"ROQUET_SECURITY_TOKEN": "lent"}, "ROQUET_ACCESS_KEY"),
        (("--tls-ca", "trusted.pem"), {}, "--tls"),
    ],
)
def test_half_of_what_is_needed_is_refused_with_the_other_half(
    words: tuple[str, ...],
    variables: dict[str, str],
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(BadOption, match=reason):
        options(*words)


def test_both_spellings_of_the_ca_file_are_known() -> None:
    for name in ("--tls-ca", "--tls-ca-file"):
        assert options("--tls", name, "/ca.pem")["tlsCaFile"] == "/ca.pem"


def test_certificates_are_found_from_wherever_tasks_run() -> None:
    found = options("--tls", "--tls-ca", "trusted.pem")
    assert found["tls"] == "true"
    assert found["tlsCaFile"] == str(Path.cwd() / "trusted.pem")


def test_a_secret_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    signed = ("--access-key", "me", "--secret-key-file", tmp_path / "secret")
    finished = roquet("spark", "dlq-report", "-n", "localhost:9876", *signed)
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
    assert str(tmp_path / "secret") in finished.stderr


class Encrypted(NamedTuple):
    name_server: str
    certificate: Path

    @property
    def words(self) -> tuple[str | Path, ...]:
        return "-n", self.name_server, "--tls", "--tls-ca", self.certificate


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    """A cluster that speaks nothing but TLS, with a message and a dead letter."""
    directory = tmp_path_factory.mktemp("encrypted")
    with OurCluster(directory, "--dir", str(directory / "data"), "--tls") as cluster:
        place = Encrypted(cluster.name_server, directory / "data/tls/certificate.pem")
        tls = TlsConfig(ca_file=place.certificate)
        with Admin(place.name_server, tls=tls) as admin:
            for topic in (ORDERS, "%DLQ%billing"):
                admin.create_topic(topic)
        with Producer(place.name_server, "sellers", tls=tls) as producer:
            producer.send(Message(ORDERS, b"7", keys=("7",)))
        yield place


@pytest.fixture
def _no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.slow
@pytest.mark.usefixtures("_no_java")
@pytest.mark.parametrize("job", JOBS)
def test_jobs_ask_encrypted_before_spark_starts(
    job: str, encrypted: Encrypted, tmp_path: Path
) -> None:
    words = JOBS[job].replace("{}", str(tmp_path)).split()
    finished = roquet("spark", job, *encrypted.words, *words)
    assert finished.stderr.splitlines()[-1].endswith("set JAVA_HOME to where it is")


@pytest.mark.slow
def test_a_plaintext_client_gets_one_line(encrypted: Encrypted) -> None:
    finished = roquet("spark", "dlq-report", "-n", encrypted.name_server, "--group", "billing")
    assert finished.exit_code == 1
    assert finished.stderr.count("\n") == 1
