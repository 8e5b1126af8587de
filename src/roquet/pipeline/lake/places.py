"""Where a lake is: a local directory, or a prefix of a bucket, and how its objects are reached.

    lake, /data/lake, file:///data/lake      a directory
    s3://bucket/prefix, s3a://...            objects, by the protocol of S3

Keys and endpoint come from the environment (the usual AWS variables) or from a file of storage
options, in each process that needs them: they are in no option, plan or checkpoint, where everybody
who can read those could read them, too.
"""

import json
import os
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, final
from urllib.parse import unquote, urlsplit

from roquet.pipeline.errors import BadLake, BadOption

# Arguments of commands are read before it is known whether Arrow is installed.
if TYPE_CHECKING:
    from pyarrow import fs

# `old:orders` is the name of a file; with a slash after it, people mean something else.
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
# What remains of `s3://bucket` after a slip.
_SLIP: Final = re.compile(r"s3a?(:|//)", re.IGNORECASE)
_S3_SCHEMES: Final = ("s3", "s3a")
_VARIABLES: Final = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_REGION",
    "AWS_DEFAULT_REGION",
    "AWS_ENDPOINT_URL",
    "AWS_ALLOW_HTTP",
    "AWS_INSTANCE_ROLE",
)
_KEYS: Final = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
# An environment that gives a process a role sets some of these.
_ROLE_VARIABLES: Final = (
    "AWS_ROLE_ARN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_INSTANCE_ROLE: Final = "AWS_INSTANCE_ROLE"
_ENDPOINT: Final = "AWS_ENDPOINT_URL"
_PORTS: Final = {"http": 80, "https": 443}
_CONNECT_TIMEOUT_S: Final = 10.0
_DEFAULT_REGION: Final = "us-east-1"
# A store that answers 503 wants to be asked again, later.
STORE_ATTEMPTS_MAX: Final = 10
_COLORS: Final = re.compile(r"\x1b\[[0-9;]*m")
_CODE: Final = re.compile(r"<Code>(?P<code>\w+)</Code>|AWS Error (?P<name>[A-Z_]+) ")
_REMEDIES: Final = {
    "nosuchbucket": "the bucket does not exist: create it, or give another",
    "invalidaccesskeyid": "the store does not know this AWS_ACCESS_KEY_ID",
    "signaturedoesnotmatch": "AWS_SECRET_ACCESS_KEY does not belong to AWS_ACCESS_KEY_ID",
    # An answer without a body has no other word for wrong keys.
    "accessdenied": "access denied: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY must be those of"
    " this store, and allow to list, read, write and delete objects there",
    "notimplemented": "the store does not support conditional puts (If-None-Match), without which"
    " two writers could overwrite each other's commits: use one that does",
}
_UNREADABLE: Final = 'expected a JSON object of texts, such as {"AWS_REGION": "eu-west-1"}'


@dataclass(frozen=True)
class S3Location:
    """A prefix of a bucket. `options_file` is read by each process that reaches it."""

    bucket: str
    key: str
    options_file: Path | None = None

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.key}"

    def absolute(self) -> Self:
        return self


LakePlace = Path | S3Location


class LakeStoreError(BadLake):
    """An object store refused a request, or cannot be reached; `code` is its word for it."""

    def __init__(self, place: object, reason: str, code: str | None = None) -> None:
        super().__init__(f"{place}: {reason}")
        self.code = code


def read_place(text: str, options_file: Path | None = None) -> LakePlace:
    """Of a path or a URI. Raises BadOption."""
    if not _SCHEME.match(text):
        if _SLIP.match(text):
            raise BadOption(
                "lake", f"{text!r}: expected s3://bucket/prefix; a directory is ./{text}"
            )
        return Path(text)
    uri = urlsplit(text)
    if uri.scheme == "file" and uri.netloc in ("", "localhost") and uri.path:
        return Path(unquote(uri.path))
    if uri.scheme.lower() not in _S3_SCHEMES:
        raise BadOption(
            "lake",
            f"{text!r}: {uri.scheme}:// is not supported: give s3://bucket/prefix, or a directory"
            " that the driver and all executors share",
        )
    key = uri.path.strip("/")
    if not uri.netloc or not key:
        raise BadOption("lake", f"{text!r}: expected s3://bucket/prefix")
    return S3Location(uri.netloc, key, options_file)


def check_no_uri(place: LakePlace) -> None:
    """`Path` makes a relative directory of a URI. Raises BadOption."""
    if isinstance(place, Path) and _SCHEME.match(str(place)):
        raise BadOption(
            "lake", f"{str(place)!r} is a directory: give read_place('s3://bucket/prefix') for S3"
        )


def beside(place: LakePlace, suffix: str) -> LakePlace:
    """The place whose name has this suffix, too."""
    if isinstance(place, Path):
        return place.with_name(f"{place.name}{suffix}")
    return replace(place, key=f"{place.key}{suffix}")


def text_of(place: LakePlace) -> str:
    """As `read_place` reads it, from any working directory."""
    return str(place.absolute())


def options_file_of(place: LakePlace) -> Path | None:
    return None if isinstance(place, Path) else place.options_file


@final
class Storage:
    """The objects of a place, for libraries that reach them by themselves, and by Arrow."""

    def __init__(self, place: LakePlace) -> None:
        self.place = place.absolute()
        self.url = str(self.place)

    @cached_property
    def options(self) -> dict[str, str]:
        """Names are those of the AWS variables. Raises BadOption."""
        if isinstance(self.place, Path):
            return {}
        found = {name: os.environ[name] for name in _VARIABLES if os.environ.get(name)}
        if self.place.options_file is not None:
            found |= _read_options(self.place.options_file)
        _check_endpoint(found)
        _check_keys(found)
        found.pop(_INSTANCE_ROLE, None)
        if "AWS_REGION" not in found:
            found["AWS_REGION"] = found.get("AWS_DEFAULT_REGION", _DEFAULT_REGION)
        return found

    @cached_property
    def root(self) -> str:
        """Of paths in `filesystem`."""
        if isinstance(self.place, Path):
            return str(self.place)
        return f"{self.place.bucket}/{self.place.key}"

    @cached_property
    def filesystem(self) -> "fs.FileSystem":
        from pyarrow import fs  # noqa: PLC0415

        if isinstance(self.place, Path):
            return fs.LocalFileSystem()
        options = self.options
        endpoint = urlsplit(options.get("AWS_ENDPOINT_URL", ""))
        return fs.S3FileSystem(
            access_key=options.get("AWS_ACCESS_KEY_ID"),
            secret_key=options.get("AWS_SECRET_ACCESS_KEY"),
            session_token=options.get("AWS_SESSION_TOKEN"),
            region=options["AWS_REGION"],
            scheme=endpoint.scheme or "https",
            endpoint_override=endpoint.netloc or None,
            retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=STORE_ATTEMPTS_MAX),
        )

    def path(self, relative: str) -> str:
        return f"{self.root}/{relative}"

    def read(self, relative: str) -> bytes:
        """Raises FileNotFoundError."""
        with self.filesystem.open_input_file(self.path(relative)) as file:
            content: bytes = file.read()
        return content

    @contextmanager
    def errors_translated(self) -> Iterator[None]:
        """What libraries raise about the store becomes one line. Raises LakeStoreError."""
        import pyarrow as pa  # noqa: PLC0415

        try:
            yield
        except (OSError, pa.ArrowException) as error:
            if isinstance(error, FileNotFoundError):
                raise
            if (file := _file_above(self.place)) is not None:
                raise BadLake(f"{self.place}: {file} is a file, not a directory") from None
            raise store_error(self.place, str(error)) from None


def _file_above(place: LakePlace) -> Path | None:
    """Where a lake has to have a directory."""
    above = (place, *place.parents) if isinstance(place, Path) else ()
    return next((each for each in above if each.is_file()), None)


def check_reachable(place: LakePlace) -> None:
    """Before a job starts: libraries are patient, and would connect again for over a minute.

    Raises BadOption, and LakeStoreError if nothing listens at the endpoint.
    """
    # Few need it, and it takes longer to load than all else here.
    from urllib.request import getproxies  # noqa: PLC0415

    endpoint = Storage(place).options.get(_ENDPOINT)
    # Behind a proxy, only libraries know the way.
    if endpoint is None or getproxies():
        return
    parts = urlsplit(endpoint)
    assert parts.hostname is not None
    address = parts.hostname, parts.port or _PORTS[parts.scheme]
    try:
        socket.create_connection(address, _CONNECT_TIMEOUT_S).close()
    except OSError as error:
        raise LakeStoreError(
            place, f"no store at {endpoint} ({error.strerror or error}): check {_ENDPOINT}"
        ) from None


def store_error(place: LakePlace, text: str) -> LakeStoreError:
    """By what a library prints about it: the words of the store, if they are known."""
    found = _CODE.search(text)
    code = (found["code"] or _store_word(found["name"])) if found else None
    remedy = _REMEDIES.get(code.lower()) if code else None
    lines = [line.strip(" ↳") for line in _COLORS.sub("", text).splitlines()]
    shown = " - ".join(line for line in lines if line and not line.startswith("<"))
    return LakeStoreError(place, f"{remedy or shown} ({code})" if code else shown, code)


def _store_word(name: str) -> str:
    """`NO_SUCH_BUCKET`, as a library has it, is `NoSuchBucket` in the answers of stores."""
    return "".join(part.capitalize() for part in name.split("_"))


def _read_options(file: Path) -> Mapping[str, str]:
    try:
        options = json.loads(file.read_bytes())
    except OSError as error:
        raise BadOption("storage-options", f"{file}: {error.strerror}") from None
    except ValueError:
        raise BadOption("storage-options", f"{file}: {_UNREADABLE}") from None
    is_flat = isinstance(options, dict) and all(isinstance(each, str) for each in options.values())
    if not is_flat:
        raise BadOption("storage-options", f"{file}: {_UNREADABLE}")
    return {name.upper(): value for name, value in options.items()}


def _check_keys(options: Mapping[str, str]) -> None:
    """Without keys, libraries ask the addresses at which clouds describe a machine.

    Elsewhere that takes long and ends with an error that names no key. Raises BadOption.
    """
    has_role = any(os.environ.get(name) for name in _ROLE_VARIABLES) or _is_true(
        options.get(_INSTANCE_ROLE)
    )
    missing = [name for name in _KEYS if not options.get(name)]
    if missing and not has_role:
        raise BadOption(
            missing[0],
            f"not set: set {', '.join(_KEYS)} and AWS_REGION (AWS_ENDPOINT_URL, too, if the store"
            " is not Amazon's) in the environment or in --storage-options FILE; on a machine whose"
            f" role gives access, set {_INSTANCE_ROLE}=true",
        )


def _is_true(value: str | None) -> bool:
    return (value or "").lower() in ("true", "1")


def _check_endpoint(options: Mapping[str, str]) -> None:
    """Raises BadOption."""
    endpoint = options.get(_ENDPOINT)
    if endpoint is None:
        return
    parts = urlsplit(endpoint)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise BadOption(_ENDPOINT, f"{endpoint!r}: expected http://host:port or https://host")
    if parts.scheme == "http" and not _is_true(options.get("AWS_ALLOW_HTTP")):
        raise BadOption(
            _ENDPOINT, f"{endpoint} is not encrypted: if that is right, set AWS_ALLOW_HTTP=true"
        )
