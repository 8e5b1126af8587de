"""Every text that the doctor can find is translated."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from roquet.client.admin import doctor
from roquet.dashboard.finding_texts import finding_remedy, finding_subject, finding_text

SOURCES = sorted(Path(doctor.__file__).parent.glob("*.py"))
# Of lines that are fine and never shown; of errors, which are whatever a server returned.
NOT_SHOWN = frozenset({"reachable", "reachable at 7", "7"})


def sample(node: ast.expr) -> str | None:
    """A text as it may be, with a 7 for what is put in; None for what is no text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = (each.value if isinstance(each, ast.Constant) else "7" for each in node.values)
        return "".join(map(str, parts))
    return None


def findings() -> Iterator[ast.Call]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            is_finding = isinstance(node, ast.Call) and ast.unparse(node.func) == "Finding"
            if isinstance(node, ast.Call) and is_finding and len(node.args) > 2:
                yield node


def samples(index: int) -> set[str]:
    shown = (each for each in findings() if "FINE" not in ast.unparse(each.args[0]))
    found = {sample(each.args[index]) for each in shown if len(each.args) > index}
    return {each for each in found if each is not None} - NOT_SHOWN


# Parts that a function puts in, not the call itself.
COMPOSED = {
    "no member is connected; 77": (
        "no member is connected; 7 messages are waiting; its last members left at a b: c"
    ),
    "7 at 7 is lost since 7 (7): 7": (
        "slave 1 at 7:1 is lost since 2026-01-01 00:00:00+00:00 (timeout): its messages have a"
        " replica less"
    ),
    "its certificate 7 at 7": "its certificate expires at 2026-01-01",
    "its clock is 7 s 7 the local one: delays and resets by time are off by as much": (
        "its clock is 7 s behind the local one: delays and resets by time are off by as much"
    ),
    "7 7": "client@1 has not finished message ID (key k) of orders a:0 for 50 s, and 2 more",
    "no member is connected; 7 messages are waiting7": (
        "no member is connected; 7 messages are waiting"
    ),
    "7 write queues but only 7 read queues 7: messages of the others are not delivered": (
        "7 write queues but only 3 read queues at a: messages of the others are not delivered"
    ),
    "more write than read queues 7: messages of the others are not delivered": (
        "more write than read queues at a: messages of the others are not delivered"
    ),
    "reads are forbidden 7": "reads are forbidden at a",
}


def test_every_text_and_remedy_is_translated() -> None:
    texts = {COMPOSED.get(each, each) for index in (2, 4) for each in samples(index)}
    assert len(texts) > 20
    assert not {each for each in texts if finding_text("zh", each) == each}
    # A remedy that is a command alone stays as it is.
    remedies = {each for each in samples(3) if not each.startswith("roquet ")}
    assert len(remedies) > 10
    assert not {each for each in remedies if finding_remedy("zh", each) == each}


@pytest.mark.parametrize(
    ("text", "chinese"),
    [
        ("has 1,204 dead letters", "有 1,204 条死信"),
        ("have dead letters: a, b, c and 2 more", "有死信：a, b, c 等（另有 2 个）"),
        (
            "no member is connected, and messages are waiting: a, b",
            "没有成员在线，且有消息堆积：a, b",
        ),
        ("no member is connected; 5 messages are waiting", "没有成员在线，有 5 条消息堆积"),
        ("connection refused", "connection refused"),
        ("strange: text", "strange: text"),
    ],
)
def test_names_and_numbers_stay(text: str, chinese: str) -> None:
    assert finding_text("zh", text) == chinese
    assert finding_text("en", text) == text


def test_subjects_and_remedies() -> None:
    assert finding_subject("zh", "group billing") == "消费组 billing"
    assert finding_subject("zh", "1,200 topics") == "1,200 个主题"
    assert finding_subject("en", "group billing") == "group billing"
    remedy = "for each: see where it waits: roquet group show g --stack"
    assert finding_remedy("zh", remedy).startswith("逐个处理：查看它在哪里等待：roquet")
