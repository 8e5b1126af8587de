"""Accounts as operators see and change them, held against what Apache's broker answered."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from roquet.broker.handlers import ROUTES
from roquet.net.router import Reply
from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.brokers import AccountConfigs
from roquet.protocol.codes import RequestCode as Code, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import field_texts
from roquet.protocol.headers.brokers import (
    DeleteAccountHeader,
    GlobalWhiteAddressesHeader,
    PutAccountHeader,
)
from tests.support.accounts import ADMIN, KNOWN, accounts_file
from tests.support.broker_bed import BrokerBed, broker_bed
from tests.support.golden_frames import GoldenFrame, golden_frames

# What the recorded brokers had.
RECORDED = """\
accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - aclTopic=PUB|SUB
  - deniedTopic=DENY
  groupPerms:
  - aclGroup=SUB
  - CLIENT_INNER_PRODUCER=SUB
- accessKey: rocketmq2
  secretKey: abcdefgh
  admin: true
"""
APACHES_REFUSAL = "org.apache.rocketmq.acl.common.AclException: "
# A 4.9 broker leaves out of the signature what its own clients put into it.
WRONGLY_REFUSED = {Code.QUERY_MESSAGE}


@pytest.fixture
async def bed(tmp_path: Path) -> AsyncIterator[BrokerBed]:
    path = accounts_file(tmp_path)
    async with broker_bed(tmp_path, access_control=True, accounts_file=path) as bed:
        yield bed


def exchanges(scenario: str) -> Iterator[tuple[Command, Command]]:
    """What clients asked the broker, and what it replied."""
    waiting: dict[int, GoldenFrame] = {}
    for frame in golden_frames():
        if frame.scenario != scenario or {frame.sender, frame.receiver} != {"client", "broker"}:
            continue
        opaque = frame.command.opaque
        if frame.kind == "request":
            waiting[opaque] = frame
        elif frame.kind == "response" and opaque in waiting:
            yield waiting.pop(opaque).command, frame.command


def is_refusal(reply: Command) -> bool:
    remark = reply.remark or ""
    return reply.code == ResponseCode.NO_PERMISSION or remark.startswith(APACHES_REFUSAL)


@pytest.mark.parametrize("scenario", ["acl_s49_c49", "acl_s49_c55", "acl_s55_c49", "acl_s55_c55"])
async def test_whom_apaches_broker_let_in_is_let_in(tmp_path: Path, scenario: str) -> None:
    path = accounts_file(tmp_path, RECORDED)
    async with broker_bed(tmp_path, access_control=True, accounts_file=path) as whole:
        routes = [replace(route, handler=lambda _broker, _request: Reply()) for route in ROUTES]
        client = BrokerBed(whole.broker, whole.clock, routes).connect()
        refused_count = 0
        for request, theirs in exchanges(scenario):
            client.send(request)
            ours = await client.replied()
            if request.code in WRONGLY_REFUSED and scenario.startswith("acl_s49"):
                assert not is_refusal(ours)
                continue
            assert is_refusal(ours) == is_refusal(theirs), (request.code, ours.remark)
            refused_count += is_refusal(ours)
            if scenario in ("acl_s49_c49", "acl_s55_c55"):
                assert ours.code == theirs.code or not is_refusal(ours)
        assert refused_count > 5


async def test_recorded_changes_of_accounts_end_as_they_did(tmp_path: Path) -> None:
    path = accounts_file(tmp_path, RECORDED)
    count = 0
    async with broker_bed(tmp_path, access_control=True, accounts_file=path) as bed:
        client = bed.connect()
        for request, theirs in exchanges("acladm_s49"):
            if request.code not in range(50, 55):
                continue
            count += 1
            client.send(request)
            ours = await client.replied()
            assert ours.code == theirs.code, (request.code, ours.remark)
            assert field_texts(ours.fields).keys() == field_texts(theirs.fields).keys()
            if request.code == Code.GET_BROKER_CLUSTER_ACL_CONFIG:
                expected = read_body(AccountConfigs, theirs.body)
                for account in expected.plain_access_configs:
                    account.secret_key = None
                found = read_body(AccountConfigs, ours.body)
                assert msgspec.to_builtins(found) == msgspec.to_builtins(expected)
            if request.code == Code.GET_BROKER_CLUSTER_ACL_INFO:
                (version,) = versions_of(theirs).values()
                assert versions_of(ours)[str(path)]["counter"] == version["counter"]
    assert count > 10


def versions_of(reply: Command) -> dict[str, dict[str, int]]:
    text = field_texts(reply.fields)["allAclFileVersion"]
    return msgspec.json.decode(text, type=dict[str, dict[str, int]])


async def test_a_new_account_may_come_in_as_soon_as_it_is_answered(bed: BrokerBed) -> None:
    client = bed.connect()
    header = PutAccountHeader(access_key="newcomer", secret_key="12345678", admin=True)
    reply = await client.ask(Code.UPDATE_AND_CREATE_ACL_CONFIG, header, signer=ADMIN)
    assert reply.code == ResponseCode.SUCCESS
    newcomer = KNOWN._replace(access_key="newcomer", secret_key="12345678")
    reply = await client.ask(Code.GET_BROKER_CONFIG, signer=newcomer)
    assert reply.code == ResponseCode.SUCCESS
    gone = DeleteAccountHeader(access_key="newcomer")
    assert (await client.ask(Code.DELETE_ACL_CONFIG, gone, signer=ADMIN)).code == 0
    reply = await client.ask(Code.GET_BROKER_CONFIG, signer=newcomer)
    assert "Check signature failed" in (reply.remark or "")


@pytest.mark.parametrize(
    ("code", "header", "failure", "remark"),
    [
        (
            Code.UPDATE_AND_CREATE_ACL_CONFIG,
            PutAccountHeader(access_key="newcomer", secret_key="hush"),
            ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED,
            "7 characters",
        ),
        (
            Code.UPDATE_AND_CREATE_ACL_CONFIG,
            PutAccountHeader(access_key="newcomer", secret_key="hush-hush", topic_perms="a=ALL"),
            ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED,
            "'ALL' is not a right",
        ),
        (
            Code.DELETE_ACL_CONFIG,
            DeleteAccountHeader(access_key="stranger"),
            ResponseCode.DELETE_ACL_CONFIG_FAILED,
            "stranger",
        ),
        (
            Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
            GlobalWhiteAddressesHeader(global_white_addrs="here"),
            ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED,
            "neither an address",
        ),
        (
            Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
            GlobalWhiteAddressesHeader(global_white_addrs="*", acl_file_full_path="/etc/passwd"),
            ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED,
            "not a file of accounts",
        ),
    ],
)
async def test_what_cannot_be_is_refused_and_shows_no_secret(
    bed: BrokerBed, code: Code, header: DeleteAccountHeader, failure: ResponseCode, remark: str
) -> None:
    reply = await bed.connect().ask(code, header, signer=ADMIN)
    assert reply.code == failure
    assert remark in (reply.remark or "")
    assert "hush" not in (reply.remark or "")


async def test_no_answer_and_no_log_has_a_secret(
    bed: BrokerBed, caplog: pytest.LogCaptureFixture
) -> None:
    client = bed.connect()
    for code in (Code.GET_BROKER_CLUSTER_ACL_CONFIG, Code.GET_BROKER_CONFIG):
        reply = await client.ask(code, signer=ADMIN)
        assert reply.body
        assert ADMIN.secret_key.encode() not in reply.body
    header = PutAccountHeader(access_key="newcomer", secret_key="hush-hush")
    await client.ask(Code.UPDATE_AND_CREATE_ACL_CONFIG, header, signer=ADMIN)
    assert "hush" not in caplog.text + repr(header)


async def test_without_access_control_there_is_nothing_to_change(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        reply = await bed.connect().ask(Code.GET_BROKER_CLUSTER_ACL_INFO)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reply.remark == "there is no access control here: see aclEnable"
