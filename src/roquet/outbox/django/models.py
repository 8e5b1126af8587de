"""The tables of the outbox; Django wants them in a module of this name."""

from django.db import models

from roquet.outbox.rows import ERROR_SIZE_MAX, NAME_SIZE_MAX


class OutboxMessage(models.Model):  # type: ignore[misc]  # Django has no type information.
    """One message that is not sent yet; `error` is why it never will be."""

    number = models.BigAutoField(primary_key=True)
    message_id = models.CharField(max_length=NAME_SIZE_MAX)
    topic = models.CharField(max_length=NAME_SIZE_MAX)
    body = models.BinaryField()
    tags = models.TextField(null=True)
    message_keys = models.TextField()
    properties = models.TextField()
    flag = models.IntegerField()
    order_key = models.CharField(max_length=NAME_SIZE_MAX, null=True, db_index=True)
    error = models.CharField(max_length=ERROR_SIZE_MAX, null=True)

    def __str__(self) -> str:
        return f"{self.message_id} to {self.topic}"


class OutboxLease(models.Model):  # type: ignore[misc]
    """Which relay sends, and until when, in milliseconds since 1970."""

    name = models.CharField(max_length=NAME_SIZE_MAX, primary_key=True)
    owner = models.CharField(max_length=NAME_SIZE_MAX)
    until_ms = models.BigIntegerField()

    def __str__(self) -> str:
        return str(self.owner)
