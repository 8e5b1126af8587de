"""Texts by name: runtime values of a broker (28), a namespace of the name server (103, 219)."""

from roquet.protocol.bodies.body import Body, always


class KvTable(Body, kw_only=True):
    table: dict[str, str] = always({})
