"""How a cluster is reached: who says it, and who counts for more."""

from argparse import ArgumentParser
from pathlib import Path

import pytest

from roquet.cli.admin_commands.access import Access, BadConfigFile, access_of, define_access
from roquet.client.config import Credentials, TlsConfig

FILE = """
name_server = "file:9876"
namespace = "shop"
timeout_s = 7.5

[credentials]
access_key = "me"
secret_key = "secret"

[tls]
ca_file = "ca.pem"
check_host = false
"""


def access(*words: str, **variables: str) -> Access:
    parser = ArgumentParser()
    define_access(parser)
    return access_of(parser.parse_args(words), {"XDG_CONFIG_HOME": "nowhere", **variables})


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "roquet.toml"
    path.write_text(FILE)
    return str(path)


def test_without_a_word_it_is_the_cluster_of_roquet_up() -> None:
    found = access()
    assert (found.name_server, found.tls, found.credentials) == ("127.0.0.1:9876", False, None)


def test_an_option_counts_for_more_than_the_environment_and_that_for_more_than_the_file(
    file: str,
) -> None:
    assert access(ROQUET_CONFIG=file).name_server == "file:9876"
    assert access(ROQUET_CONFIG=file).name_server_from == file
    assert access(ROQUET_CONFIG=file, NAMESRV_ADDR="here:1").name_server == "here:1"
    assert access("-n", "there:2", NAMESRV_ADDR="here:1").name_server == "there:2"


def test_the_file_says_the_rest(file: str) -> None:
    found = access(ROQUET_CONFIG=file)
    assert (found.namespace, found.timeout_s) == ("shop", 7.5)
    assert found.credentials == Credentials("me", "secret")
    assert found.tls == TlsConfig(ca_file="ca.pem", check_host=False)


def test_the_file_is_found_in_the_usual_places(tmp_path: Path) -> None:
    (tmp_path / ".config").mkdir()
    (tmp_path / ".config" / "roquet.toml").write_text('name_server = "home:1"')
    assert access(XDG_CONFIG_HOME="", HOME=str(tmp_path)).name_server == "home:1"
    assert access(XDG_CONFIG_HOME=str(tmp_path / ".config")).name_server == "home:1"


def test_credentials_of_the_environment_count_for_more(file: str) -> None:
    found = access(ROQUET_CONFIG=file, ROQUET_ACCESS_KEY="you", ROQUET_SECRET_KEY="other")
    assert found.credentials == Credentials("you", "other")


def test_a_security_token_of_the_environment_goes_with_its_keys(file: str) -> None:
    keys = {"ROQUET_ACCESS_KEY": "you", "ROQUET_SECRET_KEY": "other"}
    found = access(ROQUET_CONFIG=file, ROQUET_SECURITY_TOKEN="lent", **keys)
    assert found.credentials == Credentials("you", "other", "lent")


def test_an_option_about_certificates_encrypts() -> None:
    assert access("--tls").tls == TlsConfig()
    assert access("--tls-ca", "x.pem").tls == TlsConfig(ca_file=Path("x.pem"))
    assert access("--tls-any-host").tls == TlsConfig(check_host=False)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("name_server = 5", r"Expected `str \| null`, got `int` - at `\$.name_server`"),
        ('nameserver = "x:1"', "unknown field `nameserver`"),
        ("name_server = ", "Invalid value"),
        ('[credentials]\naccess_key = "a"', "missing required field `secret_key`"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(BadConfigFile, match=complaint) as caught:
        access(ROQUET_CONFIG=str(path))
    assert str(path) in str(caught.value)


def test_a_file_that_was_named_has_to_be_there() -> None:
    with pytest.raises(BadConfigFile, match="set by ROQUET_CONFIG, does not exist"):
        access(ROQUET_CONFIG="nowhere.toml")
