"""A body as a page shows it: text, JSON as a tree that folds, or hex; each bounded."""

from dataclasses import dataclass
from enum import Enum
from itertools import islice
from typing import Any, Final

import msgspec

# Of a body, on a page; the whole of it can be downloaded.
TEXT_LENGTH_MAX: Final = 64 * 1024
HEX_SIZE_MAX: Final = 4096
# Larger ones are not parsed for a page.
JSON_SIZE_MAX: Final = 1 << 20
_NODE_COUNT_MAX: Final = 2000
_DEPTH_MAX: Final = 40
_VALUE_LENGTH_MAX: Final = 2000
_HEX_WIDTH: Final = 16


class BodyView(Enum):
    TEXT = "text"
    JSON = "json"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A value, or with `children` an object or list. `key` is None at the top and in lists."""

    key: str | None
    text: str
    is_text: bool = False
    children: tuple["JsonNode", ...] | None = None


@dataclass(frozen=True, slots=True)
class ShownBody:
    view: BodyView
    # The views that this body has, the best first.
    views: tuple[BodyView, ...]
    size: int
    text: str = ""
    tree: JsonNode | None = None
    is_cut: bool = False


def shown_body(body: bytes, wanted: str | None) -> ShownBody:
    """In the view that is wanted, or the best that it has."""
    text, tree = _text(body), _json(body)
    views = [BodyView.JSON] * (tree is not None) + [BodyView.TEXT] * (text is not None)
    views.append(BodyView.HEX)
    view = next((each for each in views if each.value == wanted), views[0])
    size, shown = len(body), tuple(views)
    match view:
        case BodyView.JSON:
            count = [0]
            root = _node(None, tree, count, 0)
            return ShownBody(view, shown, size, tree=root, is_cut=count[0] > _NODE_COUNT_MAX)
        case BodyView.TEXT:
            text = text or ""
            is_cut = len(text) > TEXT_LENGTH_MAX
            return ShownBody(view, shown, size, text[:TEXT_LENGTH_MAX], is_cut=is_cut)
        case BodyView.HEX:
            return ShownBody(view, shown, size, _hex(body), is_cut=size > HEX_SIZE_MAX)


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _json(body: bytes) -> Any:
    """None for what is no object or list: there is nothing to fold."""
    if len(body) > JSON_SIZE_MAX or body.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        return None


def _node(key: str | None, value: Any, count: list[int], depth: int) -> JsonNode:
    """`count` is of all nodes so far: beyond the limit there are no more children."""
    count[0] += 1
    match value:
        case dict():
            return JsonNode(
                key, f"{{{len(value)}}}", children=_nodes(value.items(), count, depth + 1)
            )
        case list():
            items = ((None, each) for each in value)
            return JsonNode(key, f"[{len(value)}]", children=_nodes(items, count, depth + 1))
        case str():
            return JsonNode(key, value[:_VALUE_LENGTH_MAX], is_text=True)
        case _:
            return JsonNode(key, msgspec.json.encode(value).decode())


def _nodes(items: Any, count: list[int], depth: int) -> tuple[JsonNode, ...]:
    if depth > _DEPTH_MAX:
        count[0] = _NODE_COUNT_MAX + 1
    nodes = []
    for key, value in items:
        if count[0] > _NODE_COUNT_MAX:
            break
        nodes.append(_node(key, value, count, depth))
    return tuple(nodes)


def _hex(body: bytes) -> str:
    """Offset, bytes, and those that are letters."""
    lines = []
    for start in islice(range(0, len(body), _HEX_WIDTH), HEX_SIZE_MAX // _HEX_WIDTH):
        part = body[start : start + _HEX_WIDTH]
        letters = "".join(chr(each) if 0x20 <= each < 0x7F else "." for each in part)
        lines.append(f"{start:08x}  {part.hex(' '):<{_HEX_WIDTH * 3}} {letters}")
    return "\n".join(lines)
