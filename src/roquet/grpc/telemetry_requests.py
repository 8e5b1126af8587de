"""Requests of operators to a client: they arrive by remoting, and its SDK gets them by telemetry.

    307 running info        answered here from its settings; stacks by PrintThreadStackTraceCommand
    309 consume directly    VerifyMessageCommand, answered by VerifyMessageResult and a status

A request has a nonce, by which its answer is known. An SDK that does not know a command does not
answer; the operator gets a timeout, as with any consumer that takes too long.
"""

import asyncio
from itertools import count
from typing import Any, Final, Protocol

from roquet.grpc.codes import Code
from roquet.grpc.message_form import shown_message
from roquet.grpc.schema import Message, pb
from roquet.net.errors import CallTimedOut, ConnectionLost
from roquet.protocol.bodies.body import write_body
from roquet.protocol.bodies.clients import (
    ConsumeResult,
    ConsumerRunningInfo,
    ConsumeType,
    DirectConsumeResult,
    SubscriptionData,
)
from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from roquet.protocol.errors import BadMessage, TooLarge
from roquet.protocol.fields import read_header
from roquet.protocol.headers.groups import RunningInfoHeader
from roquet.protocol.messages.record import read_record

# Of one client; each waits for as long as its operator does.
REQUEST_COUNT_MAX: Final = 64

_RESULTS: Final = {
    Code.OK: ConsumeResult.SUCCESS,
    Code.MESSAGE_CORRUPTED: ConsumeResult.RETURN_NULL,
}


class TelemetryClient(Protocol):
    """What a request needs of a client."""

    peer: str
    version: str

    @property
    def is_open(self) -> bool: ...

    @property
    def subscriptions(self) -> list[SubscriptionData]: ...

    def send(self, command: Message) -> None: ...


class TelemetryRequests:
    """Of one client, by nonce, until they are answered."""

    def __init__(self) -> None:
        self._nonces = count(1)
        self._waiting: dict[str, asyncio.Future[Any]] = {}

    async def call(self, client: TelemetryClient, command: Command, timeout_s: float) -> Command:
        """The answer of remoting. Raises NetError."""
        if command.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            return await self._running_info(client, command, timeout_s)
        if command.code == RequestCode.CONSUME_MESSAGE_DIRECTLY:
            return await self._verification(client, command, timeout_s)
        raise ConnectionLost(client.peer, "clients of gRPC do not support this request")

    def answer(self, command: Message) -> None:
        """What a client sent that is no settings; without a request it has no effect."""
        for name in ("thread_stack_trace", "verify_message_result"):
            if command.HasField(name):
                waiting = self._waiting.pop(getattr(command, name).nonce, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(command)

    async def _running_info(
        self, client: TelemetryClient, command: Command, timeout_s: float
    ) -> Command:
        stacks = None
        if read_header(RunningInfoHeader, command.fields).jstack_enable:
            answer = await self._answered(
                client, command, "print_thread_stack_trace_command", timeout_s
            )
            stacks = answer.thread_stack_trace.thread_stack_trace
        info = ConsumerRunningInfo(
            jstack=stacks,
            properties={
                "PROP_CONSUME_TYPE": ConsumeType.PUSH,
                "PROP_CLIENT_VERSION": client.version,
                "PROP_CONSUMEORDERLY": "false",
                "PROP_THREADPOOL_CORE_SIZE": "0",
            },
            subscription_set=client.subscriptions,
        )
        return Command(ResponseCode.SUCCESS, body=write_body(info))

    async def _verification(
        self, client: TelemetryClient, command: Command, timeout_s: float
    ) -> Command:
        stored = read_record(command.body)
        try:
            message = shown_message(stored, stored.topic)
        except (BadMessage, TooLarge) as error:
            return Command(ResponseCode.SYSTEM_ERROR, remark=str(error))
        answer = await self._answered(
            client, command, "verify_message_command", timeout_s, message=message
        )
        result = DirectConsumeResult(
            consume_result=_RESULTS.get(answer.status.code, ConsumeResult.LATER),
            remark=answer.status.message or "from gRPC client",
        )
        return Command(ResponseCode.SUCCESS, body=write_body(result))

    async def _answered(
        self,
        client: TelemetryClient,
        command: Command,
        name: str,
        timeout_s: float,
        **members: Message,
    ) -> Message:
        if not client.is_open:
            raise ConnectionLost(client.peer, "its telemetry stream has ended")
        if len(self._waiting) >= REQUEST_COUNT_MAX:
            raise ConnectionLost(client.peer, f"{REQUEST_COUNT_MAX} requests wait already")
        nonce = str(next(self._nonces))
        waiting = self._waiting[nonce] = asyncio.get_running_loop().create_future()
        request = pb.TelemetryCommand()
        named = getattr(request, name)
        named.nonce = nonce
        for member, value in members.items():
            getattr(named, member).CopyFrom(value)
        client.send(request)
        try:
            async with asyncio.timeout(timeout_s):
                return await waiting
        except TimeoutError:
            raise CallTimedOut(client.peer, command.code, timeout_s) from None
        finally:
            self._waiting.pop(nonce, None)
