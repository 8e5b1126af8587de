"""Arguments that several jobs share, and the options of format `rocketmq` that they stand for.

Name servers, keys and TLS that are not given come from the environment, then from the file of the
operators' commands. A secret is never an argument, which every user of the machine could read, nor
part of a command that is printed to be run again: it is in a file or in the environment.
"""

import os
from argparse import SUPPRESS, ArgumentParser, ArgumentTypeError, Namespace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roquet.cli.admin_commands.access import (
    ADDRESS_DEFAULT,
    SECURITY_TOKEN_VARIABLE,
    ConfigFile,
    TlsTable,
    config_path,
    name_server_of,
    read_config_file,
)
from roquet.client.admin.remedies import ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE
from roquet.client.cluster.name_servers import ENVIRONMENT_NAME
from roquet.pipeline.errors import BadOption
from roquet.pipeline.options.declaring import DURATION, SIZE
from roquet.reporting import MISUSED, Reporter
from roquet.settings.options import TIME_MS, OptionKind

if TYPE_CHECKING:
    from roquet.pipeline.lake.places import LakePlace
    from roquet.pipeline.lake.schemas.choosing import BodyOptions
    from roquet.pipeline.selection import Selection


def define_topics(parser: ArgumentParser) -> None:
    topics = parser.add_mutually_exclusive_group(required=True)
    topics.add_argument("--topic", help="The topic to read.")
    topics.add_argument("--topics", metavar="T,T", help="The topics to read, comma-separated.")
    topics.add_argument(
        "--topic-pattern", metavar="REGEX", help="Read all topics whose full name matches."
    )


def define_cluster(parser: ArgumentParser) -> None:
    """Where Spark runs, and with which settings."""
    parser.add_argument(
        "--master", default="local[*]", help="Where Spark runs; default: this machine."
    )
    parser.add_argument(
        "--archive",
        type=Path,
        metavar="FILE",
        help="Archive written by 'roquet spark package', for executors without roquet.",
    )
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="A Spark setting; can be repeated.",
    )


def define_json(parser: ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="Print the report as one JSON object.")


def define_lake(parser: ArgumentParser, text: str, *, required: bool = False) -> None:
    """`--lake`, and how its object store is reached; `place_of` reads both."""
    parser.add_argument("--lake", required=required, type=place_text, metavar="DIR|URI", help=text)
    define_storage(parser)


def define_storage(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--storage-options",
        type=Path,
        metavar="FILE",
        help="JSON file with keys and endpoint of the object store: AWS_ACCESS_KEY_ID, ...;"
        " default: the environment.",
    )


def define_bodies(parser: ArgumentParser) -> None:
    bodies = parser.add_argument_group(
        "columns from bodies", "One of them; default: as the lake has it."
    )
    bodies.add_argument(
        "--json-schema",
        metavar="FILE|COLUMNS",
        help="Decode JSON bodies into columns, 'id bigint, name string', or those of a file.",
    )
    bodies.add_argument(
        "--avro-schema",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="Decode Avro bodies that this schema (.avsc) wrote; can be repeated if bodies are"
        " single objects, which name their schema.",
    )
    bodies.add_argument(
        "--protobuf-schema",
        type=Path,
        metavar="FILE",
        help="Decode Protobuf bodies, by a .proto or by descriptors that protoc wrote.",
    )
    bodies.add_argument(
        "--protobuf-message", metavar="NAME", help="Full name of their message, if it has several."
    )
    bodies.add_argument(
        "--registry",
        metavar="URL",
        help="Decode bodies of Confluent's serializers (Avro, Protobuf) by a schema registry.",
    )


def body_options(given: Namespace, *, infer: bool = False) -> "BodyOptions":
    from roquet.pipeline.lake.schemas.choosing import BodyOptions  # noqa: PLC0415

    return BodyOptions(
        json_schema=given.json_schema,
        avro_schemas=tuple(given.avro_schema),
        protobuf_schema=given.protobuf_schema,
        protobuf_message=given.protobuf_message,
        registry=given.registry,
        infer=infer,
    )


def place_of(given: Namespace) -> "LakePlace | None":
    """Raises BadOption, and LakeStoreError for a store that does not listen."""
    from roquet.pipeline.lake.places import check_reachable, read_place  # noqa: PLC0415

    if given.lake is None:
        return None
    place = read_place(given.lake, given.storage_options)
    if isinstance(place, Path) and given.storage_options is not None:
        raise BadOption("storage-options", f"{place} is a directory, which needs none")
    check_reachable(place)
    return place


def given_place(given: Namespace) -> "LakePlace":
    """Of a command that requires `--lake`. Raises BadOption."""
    place = place_of(given)
    assert place is not None
    return place


def place_text(text: str) -> str:
    """The same text, checked. Raises ArgumentTypeError."""
    from roquet.pipeline.lake.places import read_place  # noqa: PLC0415

    try:
        read_place(text)
    except BadOption as error:
        raise ArgumentTypeError(error.reason) from None
    return text


def size(text: str) -> int:
    """In bytes. Raises ArgumentTypeError."""
    return int(_parse(SIZE, text))


def time_span(text: str) -> timedelta:
    """Raises ArgumentTypeError."""
    span: timedelta = _parse(DURATION, text)
    return span


def moment(text: str) -> str:
    """The same text, checked to be a time. Raises ArgumentTypeError."""
    _parse(TIME_MS, text)
    return text


def _setting(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not name or not separator:
        raise ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _parse(kind: OptionKind, text: str) -> Any:
    try:
        return kind.parse(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r}: expected {kind.expected}") from None


def options_of(**values: object) -> dict[str, str]:
    """Options by the format's names for them, without those that were not given."""
    return {name: str(value) for name, value in values.items() if value is not None}


def topic_options(given: Namespace) -> dict[str, str]:
    return options_of(
        topic=given.topic,
        topics=given.topics,
        topicPattern=given.topic_pattern,
    )


def define_brokers(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-n",
        "--name-server",
        metavar="HOST:PORT",
        help="Name server; several are separated by semicolons. Default:"
        f" ${ENVIRONMENT_NAME}, the file ~/.config/roquet.toml, or {ADDRESS_DEFAULT}.",
    )
    parser.add_argument(
        "--access-key",
        metavar="KEY",
        help=f"Access key that signs requests; default: ${ACCESS_KEY_VARIABLE}, else unsigned.",
    )
    parser.add_argument(
        "--secret-key-file",
        type=Path,
        metavar="FILE",
        help="File with the secret key and nothing else;"
        f" default: the secret in ${SECRET_KEY_VARIABLE}.",
    )
    parser.add_argument("--tls", action="store_true", help="Use TLS.")
    parser.add_argument(
        "--tls-ca",
        type=Path,
        metavar="FILE",
        help="CA certificates to verify servers with (PEM); default: the system's.",
    )
    # Its former name.
    parser.add_argument("--tls-ca-file", dest="tls_ca", type=Path, help=SUPPRESS)


def broker_options(given: Namespace) -> dict[str, str]:
    """Options of format `rocketmq` by which brokers are reached.

    Raises BadOption, BadConfigFile and OSError.
    """
    file = read_config_file(os.environ)
    if given.tls_ca is not None and not given.tls:
        raise BadOption("tls-ca", "requires --tls")
    return options_of(
        nameServer=name_server_of(given.name_server, os.environ, file)[0],
        **_signing(given, file),
        **_encryption(given, file.tls),
    )


def _signing(given: Namespace, file: ConfigFile) -> dict[str, str | None]:
    access_key = given.access_key or os.environ.get(ACCESS_KEY_VARIABLE) or None
    secret_key = _secret_key(given.secret_key_file)
    token = os.environ.get(SECURITY_TOKEN_VARIABLE) or None
    kept = file.credentials
    if kept is not None and not (access_key or secret_key or token):
        access_key, secret_key, token = kept.access_key, kept.secret_key, kept.security_token
    if access_key is None and (secret_key or token):
        raise BadOption(
            "access-key",
            f"a secret key is set without an access key: give it, or set {ACCESS_KEY_VARIABLE}",
        )
    if access_key is not None and secret_key is None:
        raise BadOption("access-key", f"requires --secret-key-file or {SECRET_KEY_VARIABLE}")
    return {"accessKey": access_key, "secretKey": secret_key, "securityToken": token}


def _encryption(given: Namespace, kept: TlsTable | None) -> dict[str, str | Path | None]:
    if given.tls:
        # Tasks run in directories of their own.
        return {"tls": "true", "tlsCaFile": given.tls_ca and given.tls_ca.absolute()}
    if kept is None:
        return {}
    if kept != TlsTable(ca_file=kept.ca_file):
        raise BadOption(
            "tls",
            f"jobs support only ca_file of [tls] in {config_path(os.environ)}; give --tls instead",
        )
    return {"tls": "true", "tlsCaFile": kept.ca_file and Path(kept.ca_file).absolute()}


def _secret_key(file: Path | None) -> str | None:
    if file is None:
        return os.environ.get(SECRET_KEY_VARIABLE) or None
    try:
        secret = file.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        secret = ""
    if not secret or "\n" in secret:
        raise BadOption(
            "secret-key-file", f"{file} has no secret key in it: one line of text is expected"
        )
    return secret


def define_selection(parser: ArgumentParser) -> None:
    """Without the brokers that topics are read from: `define_brokers`."""
    topics = parser.add_mutually_exclusive_group()
    topics.add_argument("--topic", help="Select messages of this topic.")
    topics.add_argument(
        "--topics", metavar="T,T", help="Select messages of these topics, comma-separated."
    )
    topics.add_argument(
        "--topic-pattern",
        metavar="REGEX",
        help="Select messages of all topics whose full name matches.",
    )
    define_lake(parser, "Read from this lake instead of brokers: a directory or s3://.")
    parser.add_argument(
        "--start",
        type=moment,
        metavar="TIME",
        help="Stored from 2026-11-15T20:16 (local time unless it has a zone) or milliseconds.",
    )
    parser.add_argument("--end", type=moment, metavar="TIME", help="Stored before.")
    parser.add_argument(
        "--tags", metavar="EXPRESSION", help="Only messages with these tags: 'new || paid'."
    )
    parser.add_argument(
        "--key",
        action="append",
        default=[],
        metavar="KEY",
        help="Only messages with this key; can be repeated.",
    )
    parser.add_argument(
        "--where",
        metavar="SQL",
        help="Only messages that match this condition, in Spark SQL:"
        " \"queueId = 0 AND properties['price'] > 3\".",
    )
    parser.add_argument(
        "--ending-offsets",
        metavar="JSON",
        help='End offset of each queue, {"orders": {"broker-a": {"0": 23}}}; others are skipped.',
    )


def selection_of(reporter: Reporter, given: Namespace) -> "Selection":
    """Ends the command if it selects nothing."""
    from roquet.pipeline.selection import Selection, read_ends  # noqa: PLC0415

    if given.lake is None and not (given.topic or given.topics or given.topic_pattern):
        reporter.fail("no messages selected: give --topic, --topics or --topic-pattern", MISUSED)
    source = topic_options(given)
    if given.lake is None:
        source |= broker_options(given)
    return Selection(
        source=source,
        lake=place_of(given),
        start=given.start,
        end=given.end,
        tags=given.tags,
        keys=tuple(given.key),
        where=given.where,
        ends=None if given.ending_offsets is None else read_ends(given.ending_offsets),
    )
