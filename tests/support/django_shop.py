"""A Django project with an outbox: `python -m tests.support.django_shop DATABASE COMMAND ...`.

DATABASE is a path for SQLite, or the directory of a PostgreSQL's socket. Commands are those of
`manage.py`, and `place COUNT`, which rolls every second order back.
"""

import sys
from pathlib import Path

import django
from django.conf import settings
from django.core.management import execute_from_command_line
from django.db import transaction

from roquet import Message


def configure(database: str) -> None:
    if Path(database).is_dir():
        engine = {"ENGINE": "django.db.backends.postgresql", "HOST": database, "USER": "postgres"}
        one = engine | {"NAME": "postgres"}
    else:
        one = {"ENGINE": "django.db.backends.sqlite3", "NAME": database}
    settings.configure(INSTALLED_APPS=["roquet.outbox.django"], DATABASES={"default": one})
    django.setup()


def place(count: int) -> None:
    from roquet.outbox.django.outbox import add_message  # noqa: PLC0415  It needs the settings.

    for number in range(count):
        with transaction.atomic():
            add_message(Message("orders", b"%d" % number, tags="new"), order_key="ada")
            transaction.set_rollback(bool(number % 2))


if __name__ == "__main__":
    configure(sys.argv[1])
    if sys.argv[2] == "place":
        place(int(sys.argv[3]))
    else:
        execute_from_command_line(["manage.py", *sys.argv[2:]])
