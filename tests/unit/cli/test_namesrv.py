"""`roquet namesrv` as a process: options, files, signals."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from roquet.protocol.codes import RequestCode, ResponseCode
from roquet.protocol.command import Command
from tests.support.command_line import roquet
from tests.support.raw_peer import RawPeer

PROGRAM = "from roquet.cli.main import main; main()"


@asynccontextmanager
async def namesrv(home: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", PROGRAM, "namesrv"),
        *arguments,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "HOME": str(home)},
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def listening_line(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    lines = []
    async with asyncio.timeout(20):
        while line := await process.stderr.readline():
            lines.append(line.decode())
            if "listens on" in lines[-1]:
                return "".join(lines)
    raise AssertionError("".join(lines))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_serves_until_a_signal_and_ends_cleanly(
    tmp_path: Path, number: signal.Signals
) -> None:
    async with namesrv(tmp_path, "--port", "0") as process:
        match = re.search(r"listens on 127\.0\.0\.1:(\d+)", await listening_line(process))
        assert match
        async with await RawPeer.connect(int(match[1])) as peer:
            reply = await peer.ask(Command(RequestCode.GET_BROKER_CLUSTER_INFO))
            assert reply.code == ResponseCode.SUCCESS
            process.send_signal(number)
            assert await peer.until_closed() == b""
        async with asyncio.timeout(10):
            _, rest = await process.communicate()
    assert process.returncode == 0
    assert rest.decode().splitlines()[-1].endswith("name server stopped")


async def test_a_properties_file_is_obeyed_and_what_is_unknown_named_in_one_warning(
    tmp_path: Path,
) -> None:
    file = tmp_path / "namesrv.properties"
    file.write_text("bindAddress=127.0.0.2\nlistenPort=1\nfoo=1\nserverWorkerThreads=8\n")
    arguments = ("-c", str(file), "-n", "127.0.0.1:9876", "--port", "0")
    async with namesrv(tmp_path, *arguments) as process:
        lines = await listening_line(process)
    assert "listens on 127.0.0.2:" in lines
    assert lines.count("WARNING") == 1
    assert "without effect: serverWorkerThreads; unknown, possibly misspelled: foo" in lines


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"listenPort=many\n", "listenPort='many': expected a number"),
        (b"listenPort=\\u00\n", "bad escape"),
        (b"supportActingMaster=TRUE\n", "supportActingMaster=TRUE is not supported"),
        (None, "No such file"),
    ],
)
def test_a_file_that_cannot_be_used_is_a_message_and_not_a_traceback(
    tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    file = tmp_path / "namesrv.properties"
    if content is not None:
        file.write_bytes(content)
    result = roquet("namesrv", "-c", file)
    assert result.exit_code == 1
    assert result.stderr.startswith("roquet namesrv: ")
    assert complaint in result.stderr
