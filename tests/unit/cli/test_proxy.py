"""`roquet proxy` as a process: its line, its signals, its refusals."""

import re
import signal
from pathlib import Path

import pytest

from roquet.cli.admin_commands.failures import FAILED, MISUSED
from roquet.grpc.codes import Code
from roquet.grpc.schema import pb
from tests.support.command_line import roquet
from tests.support.grpc_client import grpc_client
from tests.support.our_cluster import OurProxy

NOWHERE = "127.0.0.1:9"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_it_serves_until_a_signal_and_ends_cleanly(
    tmp_path: Path, number: signal.Signals
) -> None:
    proxy = OurProxy(tmp_path, NOWHERE)
    proxy.start()
    try:
        async with grpc_client(int(proxy.endpoint.rpartition(":")[2])) as client:
            request = pb.QueryRouteRequest(topic=pb.Resource(name="orders"))
            answer = await client.call("QueryRoute", request)
            assert answer.status.code == Code.INTERNAL_SERVER_ERROR
        assert re.search(rf"^ready grpc={proxy.endpoint}$", proxy.log_tail(), re.MULTILINE)
        proxy.send_signal(number)
        assert proxy.until_ended() == 0
    finally:
        proxy.kill()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--listen", "here"),
        ("-n", "no address"),
        ("--namespace", "shop"),
        ("--listen-tls", "maybe"),
        ("--tls-ca", "/does/not/exist.pem"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(arguments: tuple[str, ...]) -> None:
    finished = roquet("proxy", "--listen", "0", *arguments)
    assert finished.exit_code == MISUSED
    assert finished.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("--acl-file", "/does/not/exist.yml"),
        ("--listen-tls-cert", "/does/not/exist.pem"),
        ("--listen", "192.0.2.1:1"),
    ],
)
def test_what_cannot_be_opened_is_reported(arguments: tuple[str, ...]) -> None:
    finished = roquet("proxy", "-n", NOWHERE, "--listen", "0", *arguments)
    assert finished.exit_code == FAILED
    assert "roquet proxy: " in finished.stderr


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with OurProxy(tmp_path, NOWHERE) as proxy:
        finished = roquet("proxy", "-n", NOWHERE, "--listen", proxy.endpoint)
    assert finished.exit_code == FAILED
    assert proxy.endpoint in finished.stderr
