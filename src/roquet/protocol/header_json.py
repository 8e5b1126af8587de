"""A command header written as JSON, member for member as Java writes it.

    {"code":105,"extFields":{"topic":"T"},"flag":0,"language":"JAVA","opaque":1,
     "serializeTypeCurrentRPC":"JSON","version":409}

Members stand in alphabetical order and absent ones are left out. Reading needs no
code here: `msgspec` decodes into a `Command`, in any order, ignoring the unknown.
"""

from typing import Final

import msgspec

from roquet.protocol.fields import NO_FIELDS


class JsonHeader(msgspec.Struct, gc=False, kw_only=True, omit_defaults=True):
    """The members in the order they are written."""

    code: int
    # Left out when it is this very object: msgspec compares such defaults by identity.
    fields: msgspec.Raw = msgspec.field(name="extFields", default=NO_FIELDS)
    flag: int
    language: str | None = None
    opaque: int
    remark: str | None = None
    serializer_name: str = msgspec.field(name="serializeTypeCurrentRPC")
    version: int


encode_json_header: Final = msgspec.json.Encoder().encode
