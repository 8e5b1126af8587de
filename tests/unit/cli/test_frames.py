import base64
import json
import subprocess
import sys
from io import BufferedReader, BytesIO
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, strategies as st

from roquet.cli.frames import frame_source, frame_view
from roquet.cli.frames.frame_source import Unreadable, recorded_frames
from roquet.cli.frames.frame_view import FrameViewer
from roquet.protocol.codes import CommandFlag, RequestCode, ResponseCode
from roquet.protocol.command import Command, encode_command, reply_to
from roquet.protocol.compression import Compression, compress
from roquet.protocol.fields import fields_of, fields_text
from roquet.protocol.frame import SERIALIZER_BINARY, encode_frame
from roquet.protocol.headers.messages import PullMessageReplyHeader
from roquet.protocol.headers.name_server import GetRouteHeader
from roquet.protocol.messages.batch import BatchItem
from roquet.protocol.messages.batch_writing import encode_batch
from tests.support.command_line import Finished, roquet
from tests.support.golden_frames import FRAMES_DIR, GoldenFrame, golden_frames
from tests.support.records import PLAIN_DRAFT, changed, record_of

ROUTE_REQUEST = Command(
    RequestCode.GET_ROUTEINFO_BY_TOPIC, 5, fields=fields_of(GetRouteHeader(topic="T"))
)
ROUTE_FRAME = encode_command(ROUTE_REQUEST)
ROUTE_REPLY_FRAME = encode_command(
    reply_to(ROUTE_REQUEST, body=b'{"brokerDatas":[{"brokerAddrs":{0:"a:1"},"brokerName":"b"}]}')
)


def decode(path: Path, content: bytes) -> Finished:
    path.write_bytes(content)
    return roquet("frames", "decode", path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "capture"


def objects(result: Finished) -> list[dict[str, object]]:
    assert result.exit_code == 0, result.stderr
    assert result.stderr == ""
    return [json.loads(line) for line in result.stdout.splitlines()]


def json_line(frame: bytes, **members: object) -> bytes:
    return json.dumps({"b64": base64.b64encode(frame).decode(), **members}).encode() + b"\n"


def test_a_request_is_shown_with_everything_it_says(file: Path) -> None:
    assert objects(decode(file, ROUTE_FRAME)) == [
        {
            "kind": "request",
            "code": 105,
            "name": "GET_ROUTEINFO_BY_TOPIC",
            "opaque": 5,
            "serializer": "JSON",
            "language": "PYTHON",
            "version": 409,
            "fields": {"topic": "T"},
        }
    ]


def test_raw_bytes_hex_and_json_lines_show_the_same(file: Path) -> None:
    frames = (ROUTE_FRAME, ROUTE_REPLY_FRAME)
    raw = decode(file, b"".join(frames))
    assert len(objects(raw)) == 2
    assert decode(file, b"\n".join(f.hex(" ").encode() for f in frames)).stdout == raw.stdout
    assert decode(file, b"\n \n" + b"".join(map(json_line, frames))).stdout == raw.stdout


def test_a_line_may_hold_several_frames(file: Path) -> None:
    frames = ROUTE_FRAME + ROUTE_REPLY_FRAME
    assert len(objects(decode(file, frames.hex().encode()))) == 2
    assert len(objects(decode(file, json_line(frames)))) == 2


def test_a_response_is_read_by_the_request_of_its_opaque(file: Path) -> None:
    _, response = objects(decode(file, ROUTE_FRAME + ROUTE_REPLY_FRAME))
    assert (response["request_code"], response["request_name"]) == (105, "GET_ROUTEINFO_BY_TOPIC")
    assert response["name"] == "SUCCESS"
    assert response["body"] == {"brokerDatas": [{"brokerAddrs": {"0": "a:1"}, "brokerName": "b"}]}


def test_a_response_is_read_by_the_request_code_of_its_line(file: Path) -> None:
    header = PullMessageReplyHeader(
        suggest_which_broker_id=0, next_begin_offset=3, min_offset=1, max_offset=9
    )
    pull = Command(RequestCode.PULL_MESSAGE, 5)
    reply = encode_command(reply_to(pull, ResponseCode.PULL_NOT_FOUND, header=header))
    # The request before it has the same opaque, but came over another connection.
    lines = json_line(ROUTE_FRAME) + json_line(reply, request_code=11)
    _, response = objects(decode(file, lines))
    assert response["request_name"] == "PULL_MESSAGE"
    assert response["name"] == "PULL_NOT_FOUND"
    assert response["fields"] == {
        "suggest_which_broker_id": 0,
        "next_begin_offset": 3,
        "min_offset": 1,
        "max_offset": 9,
    }


def test_a_response_without_a_request_shows_its_fields_and_body_as_they_are(file: Path) -> None:
    reply = Command(0, 9, CommandFlag.RESPONSE, fields=fields_text({"a": "1"}), body=b"{0:1}")
    (response,) = objects(decode(file, encode_command(reply)))
    assert "request_code" not in response
    assert response["other_fields"] == {"a": "1"}
    assert response["body"] == "{0:1}"


def test_only_so_many_requests_are_remembered(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_view, "REQUESTS_REMEMBERED_MAX", 2)
    requests = [Command(105, n, fields=ROUTE_REQUEST.fields) for n in (1, 2, 3)]
    replies = [reply_to(request) for request in requests]
    shown = objects(decode(file, b"".join(map(encode_command, requests + replies))))
    assert [frame.get("request_code") for frame in shown[3:]] == [None, 105, 105]


def test_oneway_requests_binary_headers_and_unknown_codes_are_named(file: Path) -> None:
    oneway = Command(40, 1, CommandFlag.ONEWAY, fields=fields_text({"consumerGroup": "g"}))
    binary = Command(999, 2, remark="hm", serializer=SERIALIZER_BINARY)
    first, second = objects(decode(file, encode_command(oneway) + encode_command(binary)))
    assert (first["kind"], first["name"]) == ("oneway", "NOTIFY_CONSUMER_IDS_CHANGED")
    assert (second["code"], second["serializer"], second["remark"]) == (999, "ROCKETMQ", "hm")
    assert "name" not in second


def test_the_fields_of_a_short_send_header_have_their_long_names(file: Path) -> None:
    golden = next(g for g in golden_frames() if g.place == "msg_s49_c49#9")
    assert golden.request_code == RequestCode.SEND_MESSAGE_V2
    (send,) = objects(decode(file, golden.data))
    fields = send["fields"]
    assert isinstance(fields, dict)
    assert fields["topic"] == "S49C49Topic"
    assert fields["batch"] is False
    assert send["body"] == "S49C49 plain body"


def test_messages_are_objects_with_properties_and_readable_bodies(file: Path) -> None:
    record = record_of(PLAIN_DRAFT)
    squeezed = changed(
        PLAIN_DRAFT,
        body=compress(b"squeezed", Compression.ZSTD),
        sys_flag=Compression.ZSTD.sys_flag,
    )
    reply = encode_command(
        reply_to(
            Command(RequestCode.VIEW_MESSAGE_BY_ID),
            body=record + record_of(squeezed) + record,
        )
    )
    (response,) = objects(decode(file, json_line(reply, request_code=33)))
    messages = response["body"]
    assert isinstance(messages, list)
    assert [message["body"] for message in messages] == ["hello", "squeezed", "hello"]
    assert messages[0]["properties"] == {"TAGS": "TagA", "KEYS": "k1"}
    assert (messages[0]["topic"], messages[0]["born_host"]) == ("T1", "127.0.0.1:50000")


def test_batches_are_shown_item_by_item(file: Path) -> None:
    texts = {"a": "g", "b": "T", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "0", "h": "0"}
    items = [BatchItem(3, b"one", b"KEYS\x01k"), BatchItem(0, b"\xff", b"")]
    request = Command(320, fields=fields_text({**texts, "m": "true"}), body=encode_batch(items))
    (send,) = objects(decode(file, encode_command(request)))
    assert send["body"] == [
        {"flag": 3, "properties": {"KEYS": "k"}, "body": "one"},
        {"flag": 0, "properties": {}, "body": {"base64": "/w=="}},
    ]


def test_settings_are_an_object(file: Path) -> None:
    request = Command(RequestCode.UPDATE_BROKER_CONFIG, body=b"# changed\na=1\nb = x y\n")
    (update,) = objects(decode(file, encode_command(request)))
    assert update["body"] == {"a": "1", "b": "x y"}


@pytest.mark.parametrize("path", sorted(FRAMES_DIR.glob("*.jsonl")), ids=lambda path: path.stem)
def test_every_recorded_file_is_shown_without_a_problem(path: Path) -> None:
    shown = objects(roquet("frames", "decode", path))
    assert len(shown) == len(path.read_bytes().splitlines())
    assert not [frame for frame in shown if "other_fields" in frame and "problem" in frame]


def test_empty_input_shows_nothing(file: Path) -> None:
    assert objects(decode(file, b"")) == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (ROUTE_FRAME + ROUTE_FRAME[:-1], f"byte {len(ROUTE_FRAME)}: the input ends"),
        (ROUTE_FRAME + b"\0\0\0", f"byte {len(ROUTE_FRAME)}: the input ends 3 bytes into"),
        (ROUTE_FRAME + b"\0\0\0\x04\0\0\0\x09", f"byte {len(ROUTE_FRAME)}: length 4 does not"),
        (ROUTE_FRAME + b"\x7f" * 99, f"byte {len(ROUTE_FRAME)}: frame of 2139062147 is over"),
        (json_line(ROUTE_FRAME) + b"hello\n", "line 2: neither a frame, nor JSON, nor hex"),
        (json_line(ROUTE_FRAME) + b'{"b64":"?"}', "line 2: not JSON with a frame in its member"),
        (json_line(ROUTE_FRAME) + b"{", "line 2: not JSON with a frame in its member"),
        (json_line(ROUTE_FRAME) + b'{"code":1}', "line 2: not JSON with a frame in its member"),
        (json_line(ROUTE_FRAME) + ROUTE_FRAME[:-1].hex().encode(), "line 2: the input ends"),
        (ROUTE_FRAME + encode_frame(0, b"{"), f"byte {len(ROUTE_FRAME)}: JSON header"),
        (ROUTE_FRAME + encode_frame(1, b"\0"), f"byte {len(ROUTE_FRAME)}: binary header of 1"),
    ],
)
def test_what_is_broken_is_named_with_its_place(file: Path, content: bytes, reason: str) -> None:
    result = decode(file, content)
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 1  # the whole frame before it
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"{file}: {reason}")


def test_a_broken_line_does_not_hide_the_next(file: Path) -> None:
    result = decode(file, b"zz\n" + json_line(ROUTE_FRAME) + b"00\n" + json_line(ROUTE_FRAME))
    assert result.exit_code == 1
    assert len(result.stdout.splitlines()) == 2
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    ("command", "reason", "other_fields", "body"),
    [
        (Command(105, fields=fields_text({"x": "1"})), "GetRouteHeader", {"x": "1"}, None),
        (Command(34, body=b"[{}"), "Heartbeat", None, "[{}"),
        (
            Command(11, 0, 1, fields=fields_text({"minOffset": "x"})),
            "PullMessageReplyHeader",
            {"minOffset": "x"},
            None,
        ),
        (Command(34, fields=msgspec.Raw(b'[ "a" ]')), "extFields", '[ "a" ]', None),
        (Command(33, 0, 1, body=b"\0\0\0\x08"), "record", None, {"base64": "AAAACA=="}),
    ],
)
def test_a_frame_that_breaks_its_code_is_still_shown(
    file: Path, command: Command, reason: str, other_fields: object, body: object
) -> None:
    request_code = command.code
    if command.is_response:
        command.code = ResponseCode.SUCCESS
    result = decode(file, json_line(encode_command(command), request_code=request_code))
    assert result.exit_code == 1
    shown = json.loads(result.stdout)
    assert reason in shown["problem"]
    assert shown["problem"] in result.stderr
    assert shown.get("body") == body
    assert shown.get("other_fields") == other_fields


@given(st.binary(max_size=200), st.sampled_from(golden_frames()), st.data())
@pytest.mark.slow
def test_any_bytes_are_shown_or_named(
    noise: bytes, golden: GoldenFrame, data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(golden.data)))
    damaged = golden.data[:start] + noise + golden.data[start + len(noise) :]
    source: BufferedReader = BufferedReader(BytesIO(damaged))
    viewer = FrameViewer()
    for recorded in recorded_frames(source):
        if isinstance(recorded, Unreadable):
            assert recorded.reason
            continue
        view = viewer.view(recorded._replace(request_code=golden.request_code))
        assert view.line is not None or view.problem is not None
        assert view.line is None or "\n" not in view.line


def test_a_line_over_the_limit_ends_the_reading(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_source, "LINE_SIZE_MAX", 1000)
    result = decode(file, b"0" * 1001 + b"\n" + json_line(ROUTE_FRAME))
    assert result.exit_code == 1
    assert result.stdout == ""
    assert "line 1: longer than 1000 bytes" in result.stderr


def test_a_file_that_cannot_be_read_is_a_mistake_of_the_caller(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path):
        result = roquet("frames", "decode", path)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"roquet frames decode: {path}: ")


@pytest.mark.parametrize("arguments", [[], ["-"]])
def test_without_a_file_it_reads_a_pipe(arguments: list[str]) -> None:
    main = "from roquet.cli.main import main; main()"
    finished = subprocess.run(
        [sys.executable, "-c", main, "frames", "decode", *arguments],
        input=ROUTE_FRAME + ROUTE_FRAME[:9],
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 1
    assert json.loads(finished.stdout)["code"] == 105
    assert finished.stderr.decode() == (
        f"-: byte {len(ROUTE_FRAME)}: the input ends 9 bytes into a frame\n"
    )
