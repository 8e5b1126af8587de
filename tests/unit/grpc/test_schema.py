"""The messages are those of the service, field by field."""

import ast
import re
from importlib.metadata import files

import pytest
from google.protobuf import descriptor_pb2

from roquet.grpc.schema import MESSAGES, pb

# Declared by us because they are needed, and not of the service: two are of protobuf itself, and
# one is what a map is on the wire.
_OURS = {"Timestamp", "Duration", "UserProperty"}


def _official() -> dict[str, dict[str, int]]:
    """Names and numbers in the descriptors of the Python SDK, which is not loaded for it."""
    paths = [each for each in files("rocketmq-python-client") or () if each.match("*_pb2.py")]
    found = {}
    for path in paths:
        text = path.read_text(encoding="utf-8")
        data = re.search(r"AddSerializedFile\((b'.*?')\)\n", text, re.DOTALL)
        assert data is not None, path
        file = descriptor_pb2.FileDescriptorProto.FromString(ast.literal_eval(data[1]))
        for message in file.message_type:
            found[message.name] = {field.name: field.number for field in message.field}
    return found


def test_names_and_numbers_are_those_of_the_sdk() -> None:
    official = _official()
    declared = {
        name: [field.split(" ") for field in fields.split(", ")]
        for name, _, fields in (line.partition(": ") for line in MESSAGES.strip().splitlines())
    }
    assert declared.keys() - official.keys() == _OURS
    for name, fields in declared.items():
        for number, field, _ in fields if name not in _OURS else ():
            assert official[name][field] == int(number), (name, field)


def test_a_field_knows_whether_it_was_set_where_that_matters() -> None:
    system = pb.SystemProperties(tag="")
    assert system.HasField("tag")
    assert not system.HasField("message_group")


def test_user_properties_are_a_map_on_the_wire() -> None:
    message = pb.Message(user_properties=[pb.UserProperty(key="a", value="1")])
    assert message.SerializeToString() == b"\x12\x06\x0a\x01a\x12\x011"


def test_a_message_that_is_not_declared_has_no_class() -> None:
    with pytest.raises(AttributeError):
        _ = pb.PullMessageRequest
