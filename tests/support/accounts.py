"""Accounts of every kind, in a file as Apache has it, and requests that they sign."""

from pathlib import Path
from typing import NamedTuple

from roquet.protocol.acl import ACCESS_KEY, SIGNATURE, sign, signed_bytes
from roquet.protocol.command import Command
from roquet.protocol.fields import field_texts, fields_text

TOPIC, GROUP = "orders", "billing"


class Signer(NamedTuple):
    access_key: str
    secret_key: str


ADMIN = Signer("administrator", "admin-secret")
KNOWN = Signer("somebody", "known-secret")
PUBLISHER = Signer("publisher", "pub-secret")
SUBSCRIBER = Signer("subscriber", "sub-secret")
REPLICA = Signer("replica-1", "replica-secret")
STRANGER = Signer("stranger", "any-secret")
LIAR = Signer(ADMIN.access_key, "not the secret")

ROLES: dict[str, Signer | None] = {
    "nobody": None,
    "stranger": STRANGER,
    "liar": LIAR,
    "known": KNOWN,
    "publisher": PUBLISHER,
    "subscriber": SUBSCRIBER,
    "replica": REPLICA,
    "admin": ADMIN,
}

ACCOUNTS = f"""\
globalWhiteRemoteAddresses:
accounts:
- accessKey: {ADMIN.access_key}
  secretKey: {ADMIN.secret_key}
  whiteRemoteAddress:
  admin: true
- accessKey: {KNOWN.access_key}
  secretKey: {KNOWN.secret_key}
- accessKey: {PUBLISHER.access_key}
  secretKey: {PUBLISHER.secret_key}
  admin: false
  topicPerms:
  - {TOPIC}=PUB
- accessKey: {SUBSCRIBER.access_key}
  secretKey: {SUBSCRIBER.secret_key}
  admin: false
  topicPerms:
  - {TOPIC}=SUB
  groupPerms:
  - {GROUP}=SUB
- accessKey: {REPLICA.access_key}
  secretKey: {REPLICA.secret_key}
  defaultTopicPerm: SUB
  defaultGroupPerm: SUB
"""


def accounts_file(directory: Path, text: str = ACCOUNTS) -> Path:
    path = directory / "plain_acl.yml"
    path.write_text(text)
    return path


def signed(command: Command, signer: Signer | None) -> Command:
    """The command as `signer` sends it; unsigned without one."""
    if signer is None:
        return command
    fields = field_texts(command.fields) | {ACCESS_KEY: signer.access_key}
    content = signed_bytes(fields, command.body, command.version)
    fields[SIGNATURE] = sign(content, signer.secret_key)
    command.fields = fields_text(fields)
    return command
