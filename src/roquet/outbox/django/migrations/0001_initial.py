"""The tables of the outbox, as `makemigrations` writes them."""

from django.db import migrations, models


class Migration(migrations.Migration):  # type: ignore[misc]  # Django has no type information.
    """The first one."""

    initial = True

    dependencies: list[tuple[str, str]] = []

    operations = [
        migrations.CreateModel(
            name="OutboxLease",
            fields=[
                ("name", models.CharField(max_length=255, primary_key=True, serialize=False)),
                ("owner", models.CharField(max_length=255)),
                ("until_ms", models.BigIntegerField()),
            ],
        ),
        migrations.CreateModel(
            name="OutboxMessage",
            fields=[
                ("number", models.BigAutoField(primary_key=True, serialize=False)),
                ("message_id", models.CharField(max_length=255)),
                ("topic", models.CharField(max_length=255)),
                ("body", models.BinaryField()),
                ("tags", models.TextField(null=True)),
                ("message_keys", models.TextField()),
                ("properties", models.TextField()),
                ("flag", models.IntegerField()),
                ("order_key", models.CharField(db_index=True, max_length=255, null=True)),
                ("error", models.CharField(max_length=1000, null=True)),
            ],
        ),
    ]
