"""Which requests are allowed, in which order it is decided, and what the others get."""

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roquet.access.account_store import AccountPaths, AccountStore
from roquet.access.guard import AccessGuard, Denied
from roquet.access.needs import ACCOUNT, AnyNeeds, sub_topic
from roquet.net.router import Request
from roquet.protocol.acl import SIGNATURE
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import field_texts, fields_of, fields_text
from roquet.protocol.headers.topics import GetTopicConfigHeader
from roquet.protocol.host import Address
from roquet.throttled_log import PERIOD_S
from tests.support.accounts import (
    ACCOUNTS,
    ADMIN,
    KNOWN,
    LIAR,
    REPLICA,
    STRANGER,
    SUBSCRIBER,
    TOPIC,
    Signer,
    accounts_file,
    signed,
)
from tests.support.broker_bed import VERSION_4_9_7, VERSION_5_5_0
from tests.support.fake_clock import FakeClock
from tests.support.quick_disk import QuickDisk
from tests.support.raising import raises

PEER = "198.51.100.7"


class Gate:
    """A guard, and requests that come to it."""

    def __init__(self, directory: Path, text: str = ACCOUNTS) -> None:
        self.clock = FakeClock()
        path = accounts_file(directory, text)
        accounts = AccountStore(AccountPaths(path), QuickDisk(), self.clock)
        self.guard = AccessGuard(accounts, self.clock)

    def ask(
        self,
        signer: Signer | None,
        needs: AnyNeeds | None = ACCOUNT,
        *,
        ip: str = PEER,
        version: int = VERSION_4_9_7,
        topic: str = TOPIC,
    ) -> None:
        header = GetTopicConfigHeader(topic=topic)
        command = Command(
            RequestCode.GET_TOPIC_CONFIG, version=version, fields=fields_of(header), body=b"body"
        )
        self.check(signed(command, signer), needs, ip=ip, topic=topic)

    def check(
        self, command: Command, needs: AnyNeeds | None = ACCOUNT, *, ip: str = PEER, topic: str = ""
    ) -> None:
        connection = cast("Any", SimpleNamespace(peer_address=Address(ip, 4711), peer=f"{ip}:4711"))
        header = GetTopicConfigHeader(topic=topic)
        who = self.guard.identify(command, connection)
        self.guard.check(who, None, Request(header, command, connection), needs)


@pytest.fixture
def gate(tmp_path: Path) -> Gate:
    return Gate(tmp_path)


def test_a_signature_lets_in_and_rights_decide(gate: Gate) -> None:
    gate.ask(KNOWN)
    gate.ask(SUBSCRIBER, sub_topic("topic"))
    with pytest.raises(Denied, match=f"No default permission for topic:{TOPIC}"):
        gate.ask(KNOWN, sub_topic("topic"))


def test_a_route_that_says_nothing_is_for_administrators(gate: Gate) -> None:
    gate.ask(ADMIN, None)
    with pytest.raises(Denied, match="Need admin permission for request code=351"):
        gate.ask(SUBSCRIBER, None)


def test_errors_do_not_reveal_whether_an_account_exists(gate: Gate) -> None:
    printed = []
    for signer in (STRANGER, LIAR):
        with pytest.raises(Denied) as caught:
            gate.ask(signer)
        printed.append((caught.value.code, caught.value.reason.replace(signer.access_key, "KEY")))
    assert printed[0] == printed[1]


def test_an_unsigned_request_gets_an_error(gate: Gate) -> None:
    with pytest.raises(Denied, match="No accessKey is configured"):
        gate.ask(None)


@pytest.mark.parametrize(
    ("version", "code", "prefix"),
    [
        (VERSION_4_9_7, ResponseCode.SYSTEM_ERROR, "org.apache.rocketmq.acl.common.AclException: "),
        (VERSION_5_5_0, ResponseCode.NO_PERMISSION, "Check"),
    ],
)
def test_each_version_gets_the_code_that_it_knows(
    gate: Gate, version: int, code: ResponseCode, prefix: str
) -> None:
    with pytest.raises(Denied) as caught:
        gate.ask(LIAR, version=version)
    assert caught.value.code == code
    assert caught.value.remark.startswith(prefix)


@pytest.mark.parametrize("change", [{"topic": "others"}, {"more": "fields"}, {SIGNATURE: "x"}])
def test_what_is_changed_on_the_way_does_not_pass(gate: Gate, change: dict[str, str]) -> None:
    header = GetTopicConfigHeader(topic=TOPIC)
    command = signed(Command(RequestCode.GET_TOPIC_CONFIG, fields=fields_of(header)), ADMIN)
    gate.check(command)
    command.fields = fields_text(field_texts(command.fields) | change)
    with pytest.raises(Denied, match="Check signature failed"):
        gate.check(command)


def test_another_body_does_not_pass(gate: Gate) -> None:
    command = signed(Command(RequestCode.GET_TOPIC_CONFIG, body=b"mine"), ADMIN)
    gate.check(command)
    command.body = b"theirs"
    with raises(Denied, reason=f"Check signature failed for accessKey={ADMIN.access_key}"):
        gate.check(command)


def test_trusted_addresses_need_nothing(tmp_path: Path) -> None:
    gate = Gate(tmp_path, f"globalWhiteRemoteAddresses: [{PEER}]")
    gate.ask(None, None)
    with pytest.raises(Denied):
        gate.ask(None, None, ip="198.51.100.8")


def test_an_account_may_trust_addresses_of_its_own(tmp_path: Path) -> None:
    gate = Gate(tmp_path, ACCOUNTS.replace("whiteRemoteAddress:", f"whiteRemoteAddress: {PEER}"))
    gate.ask(LIAR, None)
    with pytest.raises(Denied):
        gate.ask(LIAR, None, ip="198.51.100.8")
    with pytest.raises(Denied):
        gate.ask(KNOWN, None)


def test_a_replica_is_let_in_by_its_address(tmp_path: Path) -> None:
    replica = f"secretKey: {REPLICA.secret_key}\n  whiteRemoteAddress: 192.0.2.1\n"
    reader = f"secretKey: {SUBSCRIBER.secret_key}\n  whiteRemoteAddress: 192.0.2.2\n"
    text = ACCOUNTS.replace("WhiteRemoteAddresses:", "WhiteRemoteAddresses: [192.0.2.3]")
    text = text.replace(f"secretKey: {REPLICA.secret_key}\n", replica)
    guard = Gate(tmp_path, text.replace(f"secretKey: {SUBSCRIBER.secret_key}\n", reader)).guard
    let_in = [number for number in range(5) if guard.may_replicate(f"192.0.2.{number}")]
    assert let_in == [1, 3]


def test_refusals_are_counted_and_logged_once_a_minute(
    gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        with pytest.raises(Denied):
            gate.ask(LIAR)
    assert gate.guard.denied_count == 3
    assert len(caplog.records) == 1
    assert f"refused GET_TOPIC_CONFIG of {PEER}:4711: Check signature failed" in caplog.text
    gate.clock.advance(PERIOD_S)
    gate.guard.tick()
    assert "(2 times)" in caplog.text
    assert all(record.levelno == logging.WARNING for record in caplog.records)
    assert LIAR.secret_key not in caplog.text
