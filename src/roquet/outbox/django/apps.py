"""The app, as Django finds it; Django wants it in a module of this name."""

from django.apps import AppConfig


class OutboxConfig(AppConfig):  # type: ignore[misc]  # Django has no type information.
    """`label` is the prefix of the tables."""

    name = "roquet.outbox.django"
    label = "roquet_outbox"
    verbose_name = "Outbox of Roquet"
    default_auto_field = "django.db.models.BigAutoField"
