"""`manage.py relay_outbox --name-server HOST:PORT`: sends the rows of the outbox."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from roquet.client.blocking.producer import Producer
from roquet.errors import RoquetError
from roquet.outbox.django.outbox import DjangoOutboxTable
from roquet.outbox.relay import OutboxRelay


class Command(BaseCommand):  # type: ignore[misc]  # Django has no type information.
    """Runs until SIGINT or SIGTERM."""

    help = "Sends the messages of Roquet's outbox until it is stopped."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--name-server", help="host:port; default: NAMESRV_ADDR")
        parser.add_argument("--group", default="outbox", help="the group of the producer")
        parser.add_argument("--database", default="default", help="the alias of the database")
        parser.add_argument("--interval", type=float, default=0.5, help="seconds between looks")
        parser.add_argument(
            "--lease",
            type=float,
            default=30.0,
            help="seconds until another relay takes over from one that was killed",
        )
        parser.add_argument(
            "--retry-failed", action="store_true", help="send rows with an error again, first"
        )

    def handle(self, *_arguments: Any, **options: Any) -> None:
        table = DjangoOutboxTable(options["database"])
        if options["retry_failed"]:
            self.stdout.write(f"{table.retry_failed()} rows are sent again")
        try:
            with Producer(options["name_server"], options["group"]) as producer:
                relay = OutboxRelay(
                    table, producer, interval_s=options["interval"], lease_s=options["lease"]
                )
                relay.run()
        except RoquetError as error:
            raise CommandError(str(error)) from error
