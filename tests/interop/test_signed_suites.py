"""Every scenario of Java clients and mqadmin at our broker, once more with signatures.

One suite in `make test` and `make test-full`, all of them in `make test-long`. Left out are
`test_fast_path_share.py`, as a guarded broker has no fast path, and suites of our
own clients, which `test_access_control.py` has.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from roquet.protocol.codes import RequestCode, ResponseCode
from tests.support.blocking_peer import BlockingPeer
from tests.support.our_cluster import OurBroker
from tests.support.signing import VARIABLE

pytestmark = [pytest.mark.slow, pytest.mark.java, pytest.mark.xdist_group("apache")]

ROOT: Final = Path(__file__).parents[2]
IS_LONG: Final = bool(os.environ.get("ROQUET_LONG"))
TIMEOUT_S: Final = 1800.0
ALWAYS: Final = "broker_sending"
SUITES: Final = (
    ALWAYS,
    "broker_consuming",
    "broker_dialects",
    "broker_offsets",
    "broker_pulling",
    "broker_queries",
    "broker_rebalance",
    "broker_refusals",
    "broker_restarts",
    "delays_and_retries",
    "mqadmin",
    "request_reply",
    "transactions",
)


PYTEST: Final = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def signed_environment() -> dict[str, str]:
    """Without the variables of xdist, which would take this run for one of its workers."""
    others = {name: text for name, text in os.environ.items() if not name.startswith("PYTEST_")}
    return others | {VARIABLE: "1"}


def _parameter(suite: str) -> object:
    is_skipped = suite != ALWAYS and not IS_LONG
    marks = pytest.mark.skipif(is_skipped, reason="takes minutes: ROQUET_LONG=1")
    return pytest.param(suite, marks=marks)


@pytest.mark.parametrize("suite", [_parameter(each) for each in SUITES])
def test_every_scenario_holds_with_signatures(suite: str) -> None:
    finished = subprocess.run(
        (*PYTEST, f"tests/interop/test_{suite}.py"),
        cwd=ROOT,
        env=signed_environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout


def test_without_a_signature_the_same_broker_refuses(tmp_path: Path) -> None:
    """Or else it would be no wonder that all of them pass."""
    program = (
        "import sys, pathlib\n"
        "from tests.support.our_cluster import OurBroker\n"
        "broker = OurBroker(pathlib.Path(sys.argv[1]))\n"
        "broker.command()\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, tmp_path],
        cwd=ROOT,
        env=signed_environment(),
        check=True,
    )
    settings = dict(
        line.split("=", 1) for line in (tmp_path / "broker.conf").read_text().splitlines()
    )
    del settings["listenPort"], settings["brokerName"]
    with (
        OurBroker(tmp_path / "again", configuration=settings) as broker,
        BlockingPeer(broker.address) as nobody,
    ):
        reply = nobody.call(RequestCode.GET_BROKER_CONFIG)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "AclException" in (reply.remark or "")
