"""`roquet account` at brokers of Apache: the same contract as at ours."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from roquet import Admin, Credentials
from roquet.client.errors import RequestRefused
from tests.support.apache import ApacheBroker, ApacheCluster, ApacheNameServer
from tests.support.apache_accounts import ACCESS_CONTROL, OPERATOR, write_accounts
from tests.support.command_line import roquet
from tests.support.eventually import wait_until
from tests.support.jars import ApacheVersion

pytestmark = [pytest.mark.java, pytest.mark.xdist_group("apache")]

# Access control of this form ended with 4.x.
VERSION = ApacheVersion.V4_9_7
NEWCOMER = "newcomer"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheBroker]:
    directory = tmp_path_factory.mktemp("guarded")
    write_accounts(directory / "broker")
    with (
        ApacheNameServer(VERSION, directory / "names") as names,
        ApacheBroker(
            VERSION, directory / "broker", names.address, configuration=ACCESS_CONTROL
        ) as broker,
        pytest.MonkeyPatch.context() as environment,
    ):
        environment.setenv("NAMESRV_ADDR", names.address)
        environment.setenv("XDG_CONFIG_HOME", "nowhere")
        environment.setenv("ROQUET_ACCESS_KEY", OPERATOR.access_key)
        environment.setenv("ROQUET_SECRET_KEY", OPERATOR.secret_key)
        yield broker


def answer_of(*words: str, exit_code: int = 0) -> Any:
    finished = roquet("account", *words, "--json", "--timeout", "20")
    assert finished.exit_code == exit_code, finished.stderr
    return json.loads(finished.stdout)


def is_let_in(broker: ApacheBroker, credentials: Credentials) -> bool:
    # Whoever is known may ask an Apache broker for accounts.
    with Admin(broker.name_servers[0], credentials=credentials, timeout_s=20.0) as admin:
        try:
            admin.broker_accounts(broker.address)
        except RequestRefused:
            return False
        return True


def test_an_account_lives_and_ends(broker: ApacheBroker) -> None:
    printed = answer_of("add", NEWCOMER, "--topic", "orders=PUB", "--all-groups", "SUB")
    first = Credentials(NEWCOMER, printed["secret_key"])
    # An Apache broker watches its own file.
    wait_until(lambda: is_let_in(broker, first))
    listed = {each["account"]: each for each in answer_of("list")["accounts"]}
    assert listed[OPERATOR.access_key]["admin"]
    assert listed[NEWCOMER] == {
        "account": NEWCOMER,
        "admin": False,
        "all_topics": "DENY",
        "all_groups": "SUB",
        "topics": {"orders": "PUB"},
        "groups": None,
        "addresses": None,
        "at": broker.broker_name,
    }
    answer_of("change", NEWCOMER, "--topic", "orders=PUB|SUB", "--topic", "bills=SUB", "--admin")
    assert answer_of("show", NEWCOMER)["settings"][0]["admin"]
    assert {(each["name"], each["right"]) for each in answer_of("show", NEWCOMER)["rights"]} == {
        ("orders", "PUB|SUB"),
        ("bills", "SUB"),
    }
    second = Credentials(
        NEWCOMER, answer_of("change", NEWCOMER, "--new-secret", "--yes")["secret_key"]
    )
    wait_until(lambda: is_let_in(broker, second) and not is_let_in(broker, first))
    answer_of("remove", NEWCOMER, "--yes")
    wait_until(lambda: not is_let_in(broker, second))
    assert roquet("account", "show", NEWCOMER).exit_code == 4


def test_secrets_in_answers_of_brokers_are_not_shown(broker: ApacheBroker) -> None:
    for words in (("list",), ("show", OPERATOR.access_key)):
        for form in ((), ("--json",)):
            printed = roquet("account", *words, *form)
            assert printed.exit_code == 0, printed.stderr
            assert OPERATOR.access_key in printed.stdout
            assert OPERATOR.secret_key not in printed.stdout + printed.stderr


def test_what_the_broker_cannot_do_is_reported(broker: ApacheBroker) -> None:
    answer_of("add", "forgetful", "--topic", "orders=PUB")
    printed = roquet("account", "change", "forgetful", "--forget-topic", "orders")
    assert printed.exit_code == 1
    assert printed.stderr.endswith("deny it with NAME=DENY\n")


def test_a_broker_without_such_accounts(
    apache: ApacheCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of 5.x has users instead; one of 4.9 has access control turned off."""
    monkeypatch.setenv("NAMESRV_ADDR", apache.name_server.address)
    monkeypatch.setenv("XDG_CONFIG_HOME", "nowhere")
    printed = roquet("account", "list", "--timeout", "3")
    assert (printed.exit_code, printed.stdout) == (1, "")
    (line,) = printed.stderr.splitlines()
    is_old = apache.version is VERSION
    assert ("access control is off at broker" if is_old else "roquet account user") in line
