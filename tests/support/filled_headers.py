"""Headers of any request, with something in every field that has to be there."""

from collections.abc import Mapping

import msgspec

from roquet.protocol.fields import Header


def filled_header(header_type: type[Header], values: Mapping[str, object]) -> Header:
    """`values` are for fields of these names, wherever there is one."""
    filled: dict[str, object] = {}
    for field in msgspec.structs.fields(header_type):
        if field.name in values:
            filled[field.name] = values[field.name]
        elif field.required:
            filled[field.name] = "x" if field.type is str else 0
    return header_type(**filled)
