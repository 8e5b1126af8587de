"""A schema registry with Confluent's API: Apicurio, or its recorded replies.

Karapace, another one, cannot be had from PyPI and keeps its schemas in Kafka; Apicurio comes from
where the jars of Apache RocketMQ come from, and keeps them in memory.

    python -m tests.support.schema_registry     records the replies of Apicurio
"""

import io
import json
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import fastavro

from tests.support.jars import cache_directory, fetch_archive, made_once

APICURIO_VERSION = "2.6.13.Final"
_API = "/apis/ccompat/v7"
_RECORDED = Path(__file__).with_name("schema_registry.json")
_TIMEOUT_S = 60
_LISTENING = re.compile(r"Listening on: (http://\S+)")

MONEY = {
    "type": "record",
    "name": "Money",
    "namespace": "shop",
    "fields": [{"name": "cents", "type": "long"}],
}


def order(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {
        "type": "record",
        "name": "Order",
        "namespace": "shop",
        "fields": [{"name": name, "type": kind} for name, kind in fields],
    }


FIRST_ORDER = order(("number", "int"), ("what", ["null", "string"]))
SECOND_ORDER = order(("number", "long"), ("price", ["null", "int"]))
TEXT_ORDER = order(("number", "string"))
REFERRING_ORDER = order(("number", "int"), ("total", "shop.Money"))
MONEY_PROTO = 'syntax = "proto3"; package shop; message Money { int64 cents = 1; }'
ORDER_PROTO = """\
syntax = "proto3";
package shop;
import "money.proto";
message Other { string name = 1; }
message Order { int32 number = 1; shop.Money total = 2; message Line { string what = 1; } }
"""

# In the order of their ids, from 1 on.
REGISTERED: Mapping[str, dict[str, Any]] = {
    "money-avro": {"schema": json.dumps(MONEY)},
    "first": {"schema": json.dumps(FIRST_ORDER)},
    "second": {"schema": json.dumps(SECOND_ORDER)},
    "text": {"schema": json.dumps(TEXT_ORDER)},
    "referring": {
        "schema": json.dumps(REFERRING_ORDER),
        "references": [{"name": "shop.Money", "subject": "money-avro", "version": 1}],
    },
    "money-proto": {"schema": MONEY_PROTO, "schemaType": "PROTOBUF"},
    "proto": {
        "schema": ORDER_PROTO,
        "schemaType": "PROTOBUF",
        "references": [{"name": "money.proto", "subject": "money-proto", "version": 1}],
    },
}
IDS = {subject: index for index, subject in enumerate(REGISTERED, 1)}


def framed(subject: str, value: bytes, indexes: bytes = b"") -> bytes:
    """As Confluent's serializers write it."""
    return b"\0" + IDS[subject].to_bytes(4, "big") + indexes + value


def avro_value(schema: Any, value: Any) -> bytes:
    buffer = io.BytesIO()
    fastavro.schemaless_writer(buffer, fastavro.parse_schema(schema), value)
    return buffer.getvalue()


def avro_body(schema: Any, subject: str, **values: Any) -> bytes:
    return framed(subject, avro_value(schema, values))


@contextmanager
def recorded_registry() -> Iterator[str]:
    """Its URL; what was not recorded is answered with 404."""
    replies = json.loads(_RECORDED.read_text())

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = replies.get(self.path, (404, {"error_code": 40403}))
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def apicurio() -> Iterator[str]:
    """The URL of a registry that has the schemas of `REGISTERED`."""
    home = made_once(cache_directory() / f"apicurio-{APICURIO_VERSION}", _fetch)
    [jar] = home.glob("*-runner.jar")
    properties = ("-Dquarkus.http.port=0", "-Dquarkus.http.host=127.0.0.1")
    with subprocess.Popen(
        ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", *properties, "-jar", jar.name],
        cwd=home,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            lines = iter(process.stdout.readline, "")
            found = next((each for line in lines if (each := _LISTENING.search(line))), None)
            assert found is not None, "Apicurio did not start"
            # Nobody else reads what it prints.
            Thread(target=process.stdout.read, daemon=True).start()
            url = f"{found[1]}{_API}"
            for subject, schema in REGISTERED.items():
                assert _ask(f"{url}/subjects/{subject}/versions", schema)[0] == 200
            yield url
        finally:
            process.kill()


def _fetch(directory: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        archive = fetch_archive(
            Path(scratch), "io.apicurio", "apicurio-registry-app", APICURIO_VERSION
        )
        with tarfile.open(archive) as opened:
            opened.extractall(directory, filter="data")


def _ask(url: str, schema: Mapping[str, Any] | None = None) -> tuple[int, Any]:
    data = None if schema is None else json.dumps(schema).encode()
    headers = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
    try:
        request = Request(url, data, headers)  # noqa: S310
        with urlopen(request, timeout=_TIMEOUT_S) as reply:  # noqa: S310
            return reply.status, json.load(reply)
    except HTTPError as error:
        with error:
            return error.code, json.load(error)


def recorded_from(url: str) -> dict[str, tuple[int, Any]]:
    paths = [f"/schemas/ids/{number}" for number in (*IDS.values(), 99)]
    paths += [f"/subjects/{subject}/versions/1" for subject in ("money-avro", "money-proto")]
    return {path: _ask(url + path) for path in paths}


if __name__ == "__main__":
    with apicurio() as started:
        _RECORDED.write_text(json.dumps(recorded_from(started), indent=1, sort_keys=True) + "\n")
