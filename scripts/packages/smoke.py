"""What a fresh installation has to do: start a cluster, send a message, and get it.

    python smoke.py

Uses nothing but the standard library and the installed package, and takes any free ports.
"""

import re
import signal
import subprocess
import sysconfig
import tempfile
from pathlib import Path

from roquet import Message, Producer, PushConsumer, StartFrom

ROQUET = Path(sysconfig.get_path("scripts")) / "roquet"
STOP_S = 60


def main() -> None:
    version = subprocess.run([ROQUET, "--version"], check=True, capture_output=True, text=True)
    print(version.stdout.strip())
    with tempfile.TemporaryDirectory() as directory:
        cluster = subprocess.Popen(
            [ROQUET, "up", "--dir", directory, "--name-server-port", "0", "--broker-port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert cluster.stdout is not None
            ready = cluster.stdout.readline()
            found = re.fullmatch(r"ready name-server=(\S+) broker=\S+\n", ready)
            assert found, ready
            send_and_receive(found[1])
            cluster.send_signal(signal.SIGTERM)
            assert cluster.wait(STOP_S) == 0
        finally:
            cluster.kill()
            cluster.wait()
    print("a message was sent, stored and received")


def send_and_receive(name_server: str) -> None:
    with Producer(name_server, "smoke") as producer:
        producer.send(Message("smoke", b"hello"))
    consumer = PushConsumer(name_server, "smoke", start_from=StartFrom.FIRST)
    consumer.subscribe("smoke")
    with consumer:
        assert next(iter(consumer)).body == b"hello"


if __name__ == "__main__":
    main()
