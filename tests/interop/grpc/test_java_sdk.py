"""The official Java SDK of 5.x at our endpoint, all stories in one JVM."""

import time
from pathlib import Path

import pytest

from tests.support.accounts import Signer
from tests.support.sdk_programs import SdkProgram, java_command
from tests.support.sdk_stories import STORIES, SdkWorld

pytestmark = pytest.mark.xdist_group("java-sdk")


OPERATOR = Signer("operator-key", "operator-secret")
WRITER = Signer("writer-key", "writer-secret")
ACCOUNTS = f"""\
accounts:
- accessKey: {OPERATOR.access_key}
  secretKey: {OPERATOR.secret_key}
  admin: true
- accessKey: {WRITER.access_key}
  secretKey: {WRITER.secret_key}
  admin: false
  topicPerms:
  - guarded=PUB
"""
QUICK = ("simple", "push", "fifo", "delay", "transactions", "dead", "ordered_dead")


@pytest.mark.parametrize(
    "story",
    [
        *QUICK,
        *(
            pytest.param(name, marks=pytest.mark.full("of the rest a raw client has unit tests"))
            for name in STORIES
            if name not in QUICK
        ),
    ],
)
def test_the_java_sdk_can_do(story: str, world: SdkWorld, java_sdk: SdkProgram) -> None:
    assert world.outcome(java_sdk, story) == STORIES[story].expected


@pytest.mark.full("another JVM, and the time a killed consumer has to come back")
def test_messages_of_a_killed_consumer_come_to_others(
    world: SdkWorld, java_sdk: SdkProgram, tmp_path: Path
) -> None:
    world.make_topic("killed")
    with SdkProgram(java_command(tmp_path), tmp_path, world.endpoint) as other:
        assert other.run("hold", "killed", "mortal") == ["held"]
        other.kill()
        killed_s = time.monotonic()
        found = java_sdk.run("read", "killed", "mortal")
    assert found[1] == "held"
    assert time.monotonic() - killed_s < 15


@pytest.mark.full("a restart of the broker takes seconds")
def test_clients_go_on_after_a_restart_of_the_endpoint(
    world: SdkWorld, java_sdk: SdkProgram
) -> None:
    world.make_topic("restarted")
    assert java_sdk.run("start", "restarted", "patient")
    world.broker.stop()
    world.broker.start()
    assert java_sdk.run("finish", "restarted", "patient") == [True, True]


@pytest.mark.full("the same as in quick tests, each with a JVM of its own")
def test_tls_and_plain_clients_come_to_one_port(world: SdkWorld, tmp_path: Path) -> None:
    with SdkProgram(java_command(tmp_path), tmp_path, world.endpoint, "tls") as program:
        assert world.outcome(program, "simple") == STORIES["simple"].expected


def test_a_missing_topic_is_named(java_sdk: SdkProgram) -> None:
    assert "topic 'not-there' does not exist" in java_sdk.run("refused", "not-there")


def test_what_a_topic_takes_is_named(world: SdkWorld, java_sdk: SdkProgram) -> None:
    world.make_topic("strict", "FIFO")
    assert "FIFO" in java_sdk.run("refused", "strict")


@pytest.mark.full("two more JVMs")
def test_rights_are_those_of_the_account(tmp_path: Path) -> None:
    accounts = tmp_path / "plain_acl.yml"
    accounts.write_text(ACCOUNTS)
    settings = {"aclEnable": "true", "aclFile": str(accounts)}
    with SdkWorld(tmp_path / "world", settings, OPERATOR) as world:
        world.make_topic("guarded")
        results = [
            _refusal_of(world, tmp_path / name, *account)
            for name, account in (("known", WRITER), ("liar", (WRITER.access_key, "wrong")))
        ]
    assert results[0] == "sent"
    assert "the signature of access key 'writer-key' is not valid" in results[1]


def _refusal_of(world: SdkWorld, home: Path, *account: str) -> str:
    with SdkProgram(java_command(home), home, world.endpoint, *account) as program:
        found: str = program.run("refused", "guarded")
    return found
