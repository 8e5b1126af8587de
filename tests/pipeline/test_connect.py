"""The formats through Spark Connect: a client without a JVM, and a server that has roquet."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from roquet import Message, Producer
from roquet.testing.blocking import BlockingCluster
from tests.support import connect_client
from tests.support.class_archive import JVM_VARIABLE, quick_jvm

PATIENCE_S = 500

pytestmark = [
    pytest.mark.java,
    pytest.mark.xdist_group("spark"),
    pytest.mark.full("starts a server of Spark Connect"),
]


def test_a_connect_client_reads_writes_and_streams(
    cluster: BlockingCluster, tmp_path: Path
) -> None:
    topic = cluster.new_topic()
    with Producer(cluster.name_server, "senders") as producer:
        producer.send_many([Message(topic, b"%d" % number) for number in range(10)])
    given = {
        "name_server": cluster.name_server,
        "topic": topic,
        "checkpoint": str(tmp_path / "checkpoint"),
    }
    environment = {key: value for key, value in os.environ.items() if "SPARK" not in key}
    client = subprocess.run(
        [sys.executable, connect_client.__file__, json.dumps(given)],
        cwd=tmp_path,
        env=environment
        | {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": "127.0.0.1",
            JVM_VARIABLE: quick_jvm(),
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert client.returncode == 0, client.stderr
    found = json.loads(client.stdout)
    assert found["session"] == "pyspark.sql.connect.session"
    assert found["found"] == [*range(10)]
    assert found["written"] == found["streamed"] == [*range(20)]
