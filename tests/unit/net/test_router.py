"""What becomes of a request: replies, refusals, mistakes, one-way and deferred requests."""

import errno
import logging
import os
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roquet.net.errors import Refused
from roquet.net.router import DEFERRED, Reply, Request, RequestRoute, Router, on
from roquet.protocol.codes import CommandFlag, ResponseCode
from roquet.protocol.command import Command, decode_command, encode_command
from roquet.protocol.fields import EMPTY_FIELDS, Header, fields_text
from roquet.protocol.frame import SERIALIZER_BINARY, SERIALIZER_JSON, Frame
from roquet.protocol.frame_decoder import FrameDecoder
from tests.support.echo_server import (
    BREAK,
    DEFER,
    ECHO,
    REFUSE,
    ROUTES,
    EchoHeader,
    EchoServer,
    echo_request,
    echoed_text,
    running_echo_server,
)
from tests.support.eventually import eventually
from tests.support.raw_peer import RawPeer


async def ask(command: Command) -> Command:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        return await peer.ask(command)


@pytest.mark.parametrize("serializer", [SERIALIZER_JSON, SERIALIZER_BINARY])
async def test_a_reply_comes_in_the_serializer_of_its_request(serializer: int) -> None:
    request = echo_request("hello", opaque=77)
    request.serializer = serializer
    request.body = b"body"
    response = await ask(request)
    assert response.serializer == serializer
    assert response.opaque == 77
    assert response.flag == CommandFlag.RESPONSE
    assert (response.code, echoed_text(response), response.body) == (0, "hello", b"body")


async def test_a_refusal_travels_with_its_code_and_remark() -> None:
    response = await ask(Command(REFUSE, 5))
    assert (response.opaque, response.code) == (5, ResponseCode.NO_PERMISSION)
    assert response.remark == "not today"


async def test_every_reply_has_fields_even_a_refusal() -> None:
    # Some clients throw when `extFields` is absent.
    assert (await ask(Command(REFUSE))).fields == EMPTY_FIELDS


async def test_an_unknown_code_is_answered_as_the_reference_does() -> None:
    response = await ask(Command(999, 6))
    assert (response.opaque, response.code) == (6, ResponseCode.REQUEST_CODE_NOT_SUPPORTED)
    assert response.remark == " request type 999 not supported"


async def test_an_unreadable_field_costs_the_request_and_is_named() -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        response = await peer.ask(Command(ECHO, fields=fields_text({"bodySize": "many"})))
        assert response.code == ResponseCode.SYSTEM_ERROR
        assert response.remark == "EchoHeader: field 'bodySize' cannot be 'many'"
        assert echoed_text(await peer.ask(echo_request("next"))) == "next"


async def test_our_own_bug_is_logged_with_its_traceback_and_not_sent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    response = await ask(Command(BREAK))
    assert (response.code, response.remark) == (ResponseCode.SYSTEM_ERROR, "internal error")
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage() == "request 34 failed"
    assert "our own mistake" in caplog.text


@pytest.mark.parametrize("code", [ECHO, REFUSE, BREAK, 999])
async def test_a_oneway_request_gets_no_reply_whatever_happens(code: int) -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        peer.send(Command(code, 1, CommandFlag.ONEWAY))
        assert (await peer.ask(echo_request(opaque=2))).opaque == 2


async def test_a_deferred_request_is_overtaken_and_answered_later() -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        peer.send(Command(DEFER, 1))
        assert (await peer.ask(echo_request(opaque=2))).opaque == 2
        (deferred,) = server.deferred
        deferred.answer(Reply(remark="woken"))
        response = await peer.receive()
        assert (response.opaque, response.remark) == (1, "woken")
        assert not deferred.is_waiting
        assert server.connections[0].deferred_count == 0


async def test_a_deferred_request_whose_answer_is_due_leaves_its_place_and_says_nothing() -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        peer.send(Command(DEFER, 1))
        await eventually(lambda: server.deferred)
        (connection,) = server.connections
        connection.defer()
        server.deferred[0].answer(DEFERRED)
        assert connection.deferred_count == 1
        connection.send_deferred(
            encode_command(Command(0, 1, CommandFlag.RESPONSE, remark="at last"))
        )
        assert (await peer.receive()).remark == "at last"
        assert connection.deferred_count == 0


async def test_a_deferred_request_is_answered_once() -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        peer.send(Command(DEFER, 1))
        await eventually(lambda: server.deferred)
        server.deferred[0].answer(Reply(remark="first"))
        server.deferred[0].answer(Reply(remark="second"))
        server.deferred[0].answer_by(lambda: Reply(remark="third"))
        assert (await peer.receive()).remark == "first"
        assert (await peer.ask(echo_request(opaque=2))).opaque == 2


async def test_a_deferred_oneway_request_is_never_answered() -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        peer.send(Command(DEFER, 1, CommandFlag.ONEWAY))
        await eventually(lambda: server.deferred)
        server.deferred[0].answer(Reply())
        assert (await peer.ask(echo_request(opaque=2))).opaque == 2


def out_of_descriptors() -> Reply:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def refused_again() -> Reply:
    raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, "gone meanwhile")


def broken() -> Reply:
    raise KeyError("our own mistake")


async def test_work_for_a_deferred_request_may_refuse_or_fail_like_a_handler(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        peer.send(Command(DEFER, 1), Command(DEFER, 2))
        await eventually(lambda: len(server.deferred) == 2)
        server.deferred[0].answer_by(refused_again)
        server.deferred[1].answer_by(broken)
        refusal, failure = await peer.receive(), await peer.receive()
    assert (refusal.opaque, refusal.code) == (1, ResponseCode.SUBSCRIPTION_NOT_EXIST)
    assert (failure.opaque, failure.code) == (2, ResponseCode.SYSTEM_ERROR)
    assert "our own mistake" in caplog.text


async def test_work_that_finds_no_descriptor_left_may_be_asked_for_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        peer.send(Command(DEFER, 1))
        await eventually(lambda: len(server.deferred) == 1)
        server.deferred[0].answer_by(out_of_descriptors)
        refusal = await peer.receive()
    assert (refusal.opaque, refusal.code) == (1, ResponseCode.SYSTEM_BUSY)
    assert "retry later" in str(refusal.remark)
    assert [each.exc_info for each in caplog.records if "ulimit -n" in each.message] == [None]


async def test_work_that_finds_nothing_leaves_the_request_deferred() -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        peer.send(Command(DEFER, 1))
        await eventually(lambda: server.deferred)
        (deferred,) = server.deferred
        deferred.answer_by(lambda: None)
        assert deferred.is_waiting
        deferred.answer_by(lambda: Reply(remark="found"))
        assert (await peer.receive()).remark == "found"


async def test_nothing_is_worked_on_for_a_connection_that_closes() -> None:
    async with running_echo_server() as server, await RawPeer.connect(server.port) as peer:
        peer.send(Command(DEFER, 1))
        await eventually(lambda: server.deferred)
        worked: list[bool] = []
        server.connections[0].abort("it piles up answers")
        server.deferred[0].answer_by(lambda: worked.append(True))
        assert worked == []


async def test_deferred_requests_die_with_their_connection() -> None:
    async with running_echo_server() as server:
        async with await RawPeer.connect(server.port) as peer:
            peer.send(Command(DEFER, 1), Command(DEFER, 2))
            await eventually(lambda: len(server.deferred) == 2)
            server.deferred[0].answer(Reply())
            await peer.receive()
        await eventually(lambda: server.closed)
        assert server.lost == [server.deferred[1]]
        assert not server.deferred[1].is_waiting
        server.deferred[1].answer(Reply())  # the peer is gone, and nothing happens


def test_two_handlers_for_one_code_are_our_own_mistake() -> None:
    with pytest.raises(AssertionError, match="two handlers for"):
        Router(EchoServer(), (*ROUTES, ROUTES[0]))


class NoEntry:
    """A guard without accounts."""

    def __init__(self) -> None:
        self.checked = 0

    def identify(self, *_: object) -> None:
        raise Refused(ResponseCode.NO_PERMISSION, "who are you?")

    def account_name(self, _who: object) -> None:
        return None

    def check(self, *_: object) -> None:
        self.checked += 1


class BadNumber(Header):
    number: int


def unreachable(_server: EchoServer, _request: Request[BadNumber]) -> Reply:
    raise AssertionError("nobody comes here")


def frame_of(command: Command) -> Frame:
    (frame,) = FrameDecoder().cut(encode_command(command))
    return frame


def test_access_is_checked_before_the_header() -> None:
    guard = NoEntry()
    router = Router(EchoServer(), [on(ECHO, BadNumber, unreachable)], guard)
    connection = cast("Any", SimpleNamespace(note_refusal=lambda _code: None))
    command = Command(ECHO, fields=fields_text({"number": "no number"}))
    (answer,) = FrameDecoder().cut(router.answer(connection, frame_of(command)) or b"")
    reply = decode_command(answer)
    assert (reply.code, reply.remark) == (ResponseCode.NO_PERMISSION, "who are you?")
    assert guard.checked == 0


@pytest.mark.parametrize(
    ("is_encrypted", "code"),
    [(True, ResponseCode.SUCCESS), (False, ResponseCode.NO_PERMISSION)],
)
def test_administrators_are_answered_on_encrypted_connections_where_that_is_set(
    is_encrypted: bool, code: ResponseCode
) -> None:
    routes: list[RequestRoute[EchoServer]] = [
        on(ECHO, EchoHeader, lambda _server, _request: Reply())
    ]
    router = Router(EchoServer(), routes, admin_requires_tls=True)
    connection = cast(
        "Any", SimpleNamespace(note_refusal=lambda _code: None, is_encrypted=is_encrypted)
    )
    (answer,) = FrameDecoder().cut(router.answer(connection, frame_of(Command(ECHO))) or b"")
    assert decode_command(answer).code == code
