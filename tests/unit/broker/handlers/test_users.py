"""Users and policies as operators change them, and requests that they allow."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from roquet.protocol.bodies.body import read_body
from roquet.protocol.bodies.brokers import Acl, Policy, PolicyEntry, User
from roquet.protocol.codes import RequestCode as Code, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.fields import NoFields
from roquet.protocol.headers.brokers import (
    DeletePolicyHeader,
    ListPoliciesHeader,
    ListUsersHeader,
    PolicyHeader,
    UserHeader,
)
from roquet.protocol.headers.groups import GetMaxOffsetHeader
from tests.support.accounts import ADMIN, Signer, accounts_file
from tests.support.broker_bed import BedClient, broker_bed

ROOT = Signer("root", "root-password")
ANN = Signer("ann", "ann-password")
FIRST = User(username=ROOT.access_key, password=ROOT.secret_key)
OFFSET = GetMaxOffsetHeader(topic="orders", queue_id=0)


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[BedClient]:
    async with broker_bed(
        tmp_path, authentication=True, authorization=True, first_user=FIRST
    ) as bed:
        bed.broker.tables.topics.find_or_create("orders", 1)
        yield bed.connect()


async def make_ann(client: BedClient, *actions: str) -> None:
    user = User(password=ANN.secret_key)
    header = UserHeader(username=ANN.access_key)
    reply = await client.ask(Code.AUTH_CREATE_USER, header, user, signer=ROOT)
    assert reply.code == ResponseCode.SUCCESS, reply.remark
    if actions:
        entry = PolicyEntry(resource="Topic:orders", actions=list(actions), decision="Allow")
        acl = Acl(policies=[Policy(entries=[entry])])
        header_of_acl = PolicyHeader(subject="User:ann")
        reply = await client.ask(Code.AUTH_CREATE_ACL, header_of_acl, acl, signer=ROOT)
        assert reply.code == ResponseCode.SUCCESS, reply.remark


async def ask_for_offset(client: BedClient, signer: Signer | None) -> Command:
    return await client.ask(Code.GET_MAX_OFFSET, OFFSET, signer=signer)


async def test_a_user_has_the_rights_of_its_policies(client: BedClient) -> None:
    await make_ann(client, "Get")
    assert (await ask_for_offset(client, ANN)).code == ResponseCode.SUCCESS
    reply = await client.ask(Code.AUTH_LIST_USER, ListUsersHeader(), signer=ANN)
    assert reply.code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize("signer", [None, Signer("ann", "wrong"), Signer("bob", "ann-password")])
async def test_a_request_without_a_user_is_refused(
    client: BedClient, signer: Signer | None
) -> None:
    await make_ann(client, "Get")
    assert (await ask_for_offset(client, signer)).code != ResponseCode.SUCCESS


async def test_a_disabled_user_is_refused(client: BedClient) -> None:
    await make_ann(client, "Get")
    header = UserHeader(username="ann")
    await client.ask(Code.AUTH_UPDATE_USER, header, User(user_status="disable"), signer=ROOT)
    reply = await ask_for_offset(client, ANN)
    assert (reply.code, reply.remark) == (ResponseCode.NO_PERMISSION, "user ann is disabled")


async def test_users_and_policies_are_shown_and_deleted(client: BedClient) -> None:
    await make_ann(client, "Get")
    reply = await client.ask(Code.AUTH_GET_USER, UserHeader(username="ann"), signer=ROOT)
    assert read_body(User, reply.body).password == ANN.secret_key
    reply = await client.ask(Code.AUTH_LIST_ACL, ListPoliciesHeader(), signer=ROOT)
    assert [acl.subject for acl in read_body(list[Acl], reply.body)] == ["User:ann"]
    header = DeletePolicyHeader(subject="User:ann")
    assert (await client.ask(Code.AUTH_DELETE_ACL, header, signer=ROOT)).code == 0
    reply = await client.ask(Code.AUTH_GET_ACL, PolicyHeader(subject="User:ann"), signer=ROOT)
    assert (reply.code, reply.body) == (ResponseCode.SUCCESS, b"")
    await client.ask(Code.AUTH_DELETE_USER, UserHeader(username="ann"), signer=ROOT)
    reply = await client.ask(Code.AUTH_GET_USER, UserHeader(username="ann"), signer=ROOT)
    assert (reply.code, reply.body) == (ResponseCode.SUCCESS, b"")


async def test_bad_changes_are_refused(client: BedClient) -> None:
    for code, header, body in (
        (Code.AUTH_CREATE_USER, UserHeader(username="root"), User(password="p")),
        (Code.AUTH_UPDATE_USER, UserHeader(username="bob"), User(password="p")),
        (Code.AUTH_CREATE_ACL, PolicyHeader(subject="User:root"), Acl()),
        (Code.AUTH_DELETE_ACL, DeletePolicyHeader(subject="User:root"), b""),
        (Code.AUTH_GET_ACL, PolicyHeader(subject="root"), b""),
    ):
        reply = await client.ask(code, header, body, signer=ROOT)
        assert reply.code == ResponseCode.NO_PERMISSION


async def test_without_authorization_every_user_may_do_everything(tmp_path: Path) -> None:
    async with broker_bed(tmp_path, authentication=True, first_user=FIRST) as bed:
        client = bed.connect()
        await make_ann(client)
        reply = await client.ask(Code.AUTH_LIST_USER, ListUsersHeader(), signer=ANN)
        assert reply.code == ResponseCode.SUCCESS


async def test_listed_requests_are_not_checked(tmp_path: Path) -> None:
    code = str(int(Code.GET_MAX_OFFSET))
    for unauthorized, is_allowed in (((code,), True), ((), False)):
        async with broker_bed(
            tmp_path / str(is_allowed),
            authentication=True,
            authorization=True,
            first_user=FIRST,
            unauthenticated_codes=(code,),
            unauthorized_codes=unauthorized,
        ) as bed:
            bed.broker.tables.topics.find_or_create("orders", 1)
            reply = await ask_for_offset(bed.connect(), None)
            assert (reply.code == ResponseCode.SUCCESS) == is_allowed


async def test_accounts_of_4_x_are_obeyed_beside_users(tmp_path: Path) -> None:
    async with broker_bed(
        tmp_path,
        authentication=True,
        authorization=True,
        first_user=FIRST,
        access_control=True,
        accounts_file=accounts_file(tmp_path),
    ) as bed:
        client = bed.connect()
        for signer in (ROOT, ADMIN):
            reply = await client.ask(Code.GET_BROKER_CONFIG, NoFields(), signer=signer)
            assert reply.code == ResponseCode.SUCCESS


async def test_a_broker_without_users_refuses_requests_about_them(tmp_path: Path) -> None:
    async with broker_bed(tmp_path) as bed:
        reply = await bed.connect().ask(Code.AUTH_LIST_USER, ListUsersHeader())
        assert reply.remark == "there are no users here: see authenticationEnabled"
