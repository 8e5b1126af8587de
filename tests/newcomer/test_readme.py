"""The commands and programs of README work as they stand; only ports differ.

So do those that start servers and inspect files, which have pages of their own. README's program
for Spark is run in tests/pipeline, which has the machine for itself.
"""

import json
import re
import signal
import subprocess
from collections.abc import Iterator

import pytest

from tests.newcomer.conftest import Cluster, running_cluster
from tests.support.golden_frames import golden_frames
from tests.support.newcomer_home import ROOT, Home
from tests.support.page_blocks import DOCS
from tests.support.ports import free_port
from tests.support.readme_blocks import README, block_with, program, readme_blocks

pytestmark = pytest.mark.xdist_group("newcomer")

USUAL_NAME_SERVER = "127.0.0.1:9876"


@pytest.fixture(scope="module")
def cluster(home: Home) -> Iterator[Cluster]:
    """With a directory of its own: what README shows is what a user sees at the first try."""
    _, command = block_with("$ roquet up").commands
    with running_cluster(home, command) as cluster:
        yield cluster


def test_every_block_is_run_by_a_test() -> None:
    """By those below in order, by `home` and `cluster`, and by the one of Spark."""
    first_lines = [block.text.partition("\n")[0].split("   ")[0] for block in readme_blocks()]
    assert first_lines == [
        "make demo",
        "$ python3 -m venv .venv && source .venv/bin/activate && pip install .",
        "# orders.py",
        "$ python orders.py",
        "# test_orders.py",
        "# count_orders.py",
        "roquet doctor",
    ]


def test_the_targets_of_make_exist() -> None:
    for command in block_with("make demo").commands:
        subprocess.run(
            ["make", "--dry-run", *command.split()[1:]], cwd=ROOT, check=True, capture_output=True
        )


def test_the_version_is_reported(home: Home) -> None:
    assert home.run(".venv/bin/roquet --version").stdout.startswith("roquet 0.")


def test_a_cluster_says_where_it_is(cluster: Cluster) -> None:
    (ready,) = block_with("$ roquet up").output
    assert _without_numbers(cluster.ready_line) == _without_numbers(ready)


def test_servers_start_piece_by_piece(home: Home) -> None:
    names_port, broker_port = free_port(), free_port()
    (home.directory / "namesrv.conf").write_text(f"listenPort={names_port}\n")
    (home.directory / "broker.conf").write_text(
        f"listenPort={broker_port}\nstorePathRootDir={home.directory / 'store'}\n"
        "mappedFileSizeCommitLog=16777216\n"
    )
    names_command, broker_command = block_with("roquet namesrv -c", DOCS / "running.md").commands
    broker_command = broker_command.replace("9876", str(names_port))
    with home.running(names_command) as names, home.running(broker_command) as broker:
        names.wait_for(f"name server listens on 127.0.0.1:{names_port}\n")
        broker.wait_for(f"serves at 127.0.0.1:{broker_port}\n")
        assert broker.stop() == names.stop(signal.SIGTERM) == 0


def test_a_program_sends_and_consumes(home: Home, cluster: Cluster) -> None:
    block = program("orders.py")
    text = block.text.replace(USUAL_NAME_SERVER, cluster.name_server)
    (home.directory / "orders.py").write_text(text)
    shown = block_with("$ python orders.py")
    (command,) = shown.commands
    with home.running(command) as running:
        running.wait_for("billed")
        assert running.stop() == 0
        printed = running.output().splitlines()
    assert [_without_numbers(line) for line in printed] == [
        _without_numbers(line) for line in shown.output
    ]


def test_a_cluster_is_looked_after(home: Home, cluster: Cluster) -> None:
    doctor, top, show, tail = (
        f"{command} -n {cluster.name_server}" for command in block_with("roquet doctor").commands
    )
    examined = home.run(doctor)
    assert examined.exit_code == 0, examined.stdout
    # Without a terminal it is one look.
    assert "billing" in home.run(top).stdout
    assert "orders" in home.run(show).stdout
    with home.running(tail) as running:
        running.wait_for("one coffee")
        assert running.stop() == 0


def test_a_test_file_passes(home: Home) -> None:
    (home.directory / "test_orders.py").write_text(program("test_orders.py").text)
    install, command = "pip install pytest", "pytest -q test_orders.py"
    assert f"`{install}`, then `{command}`" in README.read_text()
    assert home.run(install).exit_code == 0
    finished = home.run(f"{command} -W error")
    assert finished.exit_code == 0, finished.stdout
    assert "1 passed" in finished.stdout


def test_files_are_looked_at_while_the_cluster_runs_and_repaired_afterwards(
    home: Home, cluster: Cluster
) -> None:
    send = (
        "from roquet import Message, Producer\n"
        f"with Producer({cluster.name_server!r}, 'shop') as producer:\n"
        "    producer.send(Message('orders', b'one tea'))\n"
    )
    assert home.run(f'python -c "{send}"').exit_code == 0
    capture = b"".join(frame.data for frame in golden_frames()[:20])
    (home.directory / "capture.bin").write_bytes(capture)
    block = block_with("roquet frames decode", DOCS / "operating.md")
    inspect, dump, verify, repair, decode = block.commands
    decoded = home.run(decode)
    assert decoded.exit_code == 0, decoded.stderr
    assert all(map(json.loads, decoded.stdout.splitlines()))
    assert "orders" in home.run(inspect).stdout
    bodies = [json.loads(line)["topic"] for line in home.run(dump).stdout.splitlines()]
    assert set(bodies) == {"orders"}
    assert "pip install 'roquet[tools]'" in home.run(verify).stderr
    in_use = home.run(repair)
    assert in_use.exit_code == 1
    assert in_use.stderr == (
        "roquet store repair: data/broker-a is in use: another process holds lock\n"
    )


def _without_numbers(line: str) -> str:
    return re.sub(r"\d+", "N", line)
