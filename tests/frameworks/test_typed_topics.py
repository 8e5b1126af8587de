"""What type checkers see of typed topics: mypy --strict and pyright agree on right and wrong."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.gates import few
from tests.support.page_blocks import DOCS, blocks_of

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]

RIGHT = """
from dataclasses import dataclass
from typing import TypedDict, assert_type
from uuid import UUID

import msgspec
import pydantic
from google.protobuf.timestamp_pb2 import Timestamp

from roquet import (
    AsyncProducer,
    AsyncPushConsumer,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    Topic,
)
from roquet.avro import AvroCodec


@dataclass
class Order:
    number: int


class Parcel(msgspec.Struct):
    weight: float


class Note(TypedDict):
    text: str


class Model(pydantic.BaseModel):
    number: int


orders = Topic("orders", Order)
parcels = Topic("parcels", Parcel)
notes = Topic("notes", Note)
models = Topic("models", Model)
moments = Topic("moments", Timestamp)
archive = Topic("archive", Order, codec=AvroCodec(Order, {"type": "string"}))
assert_type(orders, Topic[Order])
assert_type(orders(Order(7), tags="new"), Message)
assert_type(notes({"text": "ciao"}), Message)


def read(message: ReceivedMessage) -> None:
    assert_type(parcels.decode(message), Parcel)
    assert_type(models.decode(message), Model)
    assert_type(moments.decode(message), Timestamp)


consumer = PushConsumer("127.0.0.1:9876", "billing")


@consumer.on(orders)
def bill(order: Order) -> int:
    return order.number


@consumer.on(parcels, tags="heavy")
def ship(parcel: Parcel, message: ReceivedMessage) -> None:
    assert_type(parcel.weight, float)


@consumer.on("others")
def other(message: ReceivedMessage) -> None: ...


async def many(messages: list[ReceivedMessage]) -> None: ...


PushConsumer("127.0.0.1:9876", "billing", other)
PushConsumer("127.0.0.1:9876", "billing", other, concurrency=3)
AsyncPushConsumer("127.0.0.1:9876", "billing", many, batch_size=3)
PushConsumer("127.0.0.1:9876", "billing", lambda message: print(message.body))


assert_type(bill(Order(7)), int)
async_consumer = AsyncPushConsumer("127.0.0.1:9876", "billing")


@async_consumer.on(orders)
async def bill_later(order: Order) -> None: ...


async def send(producer: AsyncProducer, blocking: Producer) -> None:
    await producer.send(orders(Order(7)))
    await producer.send_batch([orders(Order(7))])
    blocking.submit(orders(Order(7), keys=7))
    blocking.send(Message("orders", memoryview(b"x"), keys="one"))
    blocking.send(Message("orders", bytearray(b"x"), keys=["one", 2, UUID(int=3)]))
    assert_type(Message("orders", b"x").body, bytes)
    assert_type(Message("orders", b"x").keys, tuple[str, ...])
"""

# Each line is wrong by itself.
WRONG = (
    "orders(Parcel(1.5))",
    'orders({"number": 7})',
    "consumer.on(orders)(ship)",
    "async_consumer.on(parcels)(bill_later)",
    "number: int = orders.decode(message)",
    'Topic("orders", Order, codec=AvroCodec(Parcel, {"type": "string"}))',
    'Message("orders", "text")',
    'Message("orders", b"x", keys=1.5)',
    'Message("orders", b"x", tags=["a", "b"])',
    # A listener gets a list if there is a batch size, and else one message.
    'PushConsumer("127.0.0.1:9876", "billing", many)',
    'AsyncPushConsumer("127.0.0.1:9876", "billing", other, batch_size=3)',
)


def errors(checker: str, text: str, directory: Path) -> list[int]:
    """The numbers of lines with an error, from 1."""
    program = directory / "program.py"
    program.write_text(text)
    settings = {"extraPaths": [str(ROOT / "src")]}
    (directory / "pyrightconfig.json").write_text(json.dumps(settings))
    arguments = {
        "mypy": ["--strict", "--no-error-summary", "--cache-dir", str(ROOT / ".mypy_cache")],
        "pyright": ["--pythonpath", sys.executable],
    }
    finished = subprocess.run(
        [Path(sys.executable).parent / checker, *arguments[checker], program],
        cwd=ROOT if checker == "mypy" else directory,
        env={"PATH": "/usr/bin:/bin", "MYPYPATH": str(ROOT / "src"), "HOME": str(Path.home())},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    if checker == "pyright" and finished.returncode not in (0, 1):
        pytest.skip(f"pyright did not start, which loads itself once: {finished.stderr[-300:]}")
    assert finished.returncode in (0, 1), finished.stdout + finished.stderr
    found = [line for line in finished.stdout.splitlines() if f"{program.name}:" in line]
    return sorted({int(line.split(".py:")[1].split(":")[0]) for line in found if " error" in line})


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_right_types_pass(checker: str, tmp_path: Path) -> None:
    assert errors(checker, RIGHT, tmp_path) == []


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_wrong_types_are_found(checker: str, tmp_path: Path) -> None:
    start = "from typing import cast\n"
    message = "message = cast(ReceivedMessage, None)\n"
    first = (start + RIGHT + message).count("\n") + 1
    found = errors(checker, start + RIGHT + message + "\n".join(WRONG) + "\n", tmp_path)
    assert found == list(range(first, first + len(WRONG)))


@pytest.mark.parametrize(
    "checker", few(["mypy", "pyright"], 1, "pyright over what mypy has passed")
)
def test_the_page_passes(checker: str, tmp_path: Path) -> None:
    python = [block for block in blocks_of(DOCS / "typed_topics.md") if block.language == "python"]
    program = "\n".join(block.text for block in python)
    assert errors(checker, program, tmp_path) == []


@pytest.mark.parametrize(
    "checker", few(["mypy", "pyright"], 1, "pyright over what mypy has passed")
)
def test_the_example_passes(checker: str, tmp_path: Path) -> None:
    assert errors(checker, (ROOT / "examples" / "typed_topics.py").read_text(), tmp_path) == []
