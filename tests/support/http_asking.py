"""Asking for pages over HTTP, with nothing but a socket."""

import asyncio
from http import HTTPStatus
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

PATIENCE_S = 30.0


class Answer(NamedTuple):
    status: HTTPStatus
    headers: dict[str, str]
    body: bytes


async def asked(port: int, request: bytes) -> bytes:
    """All that comes back until the other side closes; nothing if it just hangs up."""
    async with asyncio.timeout(PATIENCE_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            writer.write(request)
            return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.close()


async def page(port: int, path: str, method: str = "GET") -> Answer:
    request = f"{method} {path} HTTP/1.1\r\nHost: here\r\n\r\n"
    head, _, body = (await asked(port, request.encode())).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Answer(HTTPStatus(int(first.split()[1])), headers, body)


def page_of(address: str, path: str) -> Answer:
    """The same from a test without a loop, of another process. Raises OSError."""
    try:
        with urlopen(f"http://{address}{path}", timeout=PATIENCE_S) as reply:
            return Answer(HTTPStatus(reply.status), dict(reply.headers), reply.read())
    except HTTPError as error:
        with error:
            return Answer(HTTPStatus(error.code), dict(error.headers), error.read())
