"""A schema registry with Confluent's API; Karapace and Apicurio (`/apis/ccompat/v7`) speak it.

Only the driver asks it: what it answered is sent to tasks, and stored with the lake. User and
password are in the environment, as Confluent's own tools have them.
"""

import base64
import json
import os
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, Final, final
from urllib.error import HTTPError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from roquet.pipeline.errors import BadOption, BadSchema, RegistryFailed
from roquet.pipeline.lake.schemas.body_schema import (
    AvroSchema,
    ProtobufSchema,
    UnusableSchema,
    WriterSchema,
    indexes_in,
)
from roquet.pipeline.lake.schemas.protobuf_bodies import compiled, message_at
from roquet.pipeline.lake.schemas.written_bodies import reader_of

USER_VARIABLE: Final = "SCHEMA_REGISTRY_BASIC_AUTH_USER_INFO"
_ACCEPT: Final = "application/vnd.schemaregistry.v1+json, application/json"
_TIMEOUT_S: Final = 30.0
_ANSWER_SIZE_MAX: Final = 16 << 20
_REFERENCES_MAX: Final = 200
_NOT_FOUND: Final = 404


def check_registry_url(url: str) -> None:
    """Raises BadOption."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadOption("registry", f"{url!r}: expected http://host:port or https://host")
    if parts.username is not None or parts.query:
        raise BadOption(
            "registry",
            "its URL is stored with the lake, and must have no password: set"
            f" {USER_VARIABLE}=user:password in the environment",
        )


@final
class SchemaRegistry:
    def __init__(self, url: str) -> None:
        """Raises BadOption."""
        check_registry_url(url)
        self._url = url.rstrip("/")

    def check(self) -> None:
        """Whether it answers. Raises RegistryFailed."""
        self._ask("/schemas/types")

    def writer(self, key: str) -> WriterSchema:
        """The schema that bodies call by this key; unusable if the registry does not have it.

        Raises RegistryFailed.
        """
        schema_id, indexes = indexes_in(key)
        found = self._get(f"/schemas/ids/{schema_id}")
        if found is None:
            return UnusableSchema(f"the registry has no schema {schema_id}")
        try:
            writer = self._writer(found, indexes)
            reader_of(writer)
        except BadSchema as error:
            return UnusableSchema(f"schema {schema_id} of the registry: {error}")
        return writer

    def _writer(self, found: Mapping[str, Any], indexes: list[int]) -> WriterSchema:
        kind = found.get("schemaType", "AVRO")
        references = self._references(found)
        if kind == "AVRO":
            return AvroSchema(found["schema"], list(references.values()))
        if kind == "PROTOBUF":
            main = "roquet-main.proto"
            descriptors = compiled({**references, main: found["schema"]}, main)
            return ProtobufSchema(descriptors, message_at(descriptors, indexes))
        raise BadSchema(f"its type {kind} cannot be decoded, only AVRO and PROTOBUF")

    def _references(self, found: Mapping[str, Any]) -> dict[str, str]:
        """Schemas by the name that others refer to; each after those that it refers to itself."""
        texts: dict[str, str] = {}
        self._add_references(found, texts)
        return texts

    def _add_references(self, found: Mapping[str, Any], texts: dict[str, str]) -> None:
        for each in found.get("references") or ():
            if each["name"] in texts:
                continue
            if len(texts) >= _REFERENCES_MAX:
                raise BadSchema(f"it refers to more than {_REFERENCES_MAX} other schemas")
            subject = quote(each["subject"], safe="")
            inner = self._get(f"/subjects/{subject}/versions/{int(each['version'])}")
            if inner is None:
                raise BadSchema(f"it refers to {each['subject']} {each['version']}, which is gone")
            self._add_references(inner, texts)
            texts[each["name"]] = inner["schema"]

    def _get(self, path: str) -> dict[str, Any] | None:
        """None if there is none. Raises RegistryFailed."""
        content = self._ask(path)
        return None if content is None else self._decoded(content)

    def _ask(self, path: str) -> bytes | None:
        headers = {"Accept": _ACCEPT, **_authorization()}
        # That it is http or https was checked.
        request = Request(f"{self._url}{path}", headers=headers)  # noqa: S310
        try:
            with urlopen(request, timeout=_TIMEOUT_S) as reply:  # noqa: S310
                content: bytes = reply.read(_ANSWER_SIZE_MAX + 1)
        except HTTPError as error:
            with error:
                if error.code == _NOT_FOUND:
                    return None
            raise RegistryFailed(self._url, f"HTTP {error.code} {error.reason}") from None
        except (OSError, HTTPException) as error:
            raise RegistryFailed(self._url, str(getattr(error, "reason", error))) from None
        return content

    def _decoded(self, content: bytes) -> dict[str, Any]:
        if len(content) > _ANSWER_SIZE_MAX:
            raise RegistryFailed(self._url, f"an answer of more than {_ANSWER_SIZE_MAX} bytes")
        try:
            found = json.loads(content)
        except ValueError:
            raise RegistryFailed(self._url, "its answer is not JSON") from None
        if not isinstance(found, dict) or not isinstance(found.get("schema"), str):
            raise RegistryFailed(
                self._url, "its answer has no schema: is it the URL of a registry?"
            )
        return found


def _authorization() -> dict[str, str]:
    user = os.environ.get(USER_VARIABLE)
    if not user:
        return {}
    return {"Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}
