"""An outbox in a Django project; extra `django`.

    INSTALLED_APPS = [..., "roquet.outbox.django"]

    from roquet.outbox.django.outbox import add_message

    with transaction.atomic():
        order.save()
        add_message(orders(Order(7, "coffee")), order_key="7")

`manage.py migrate` creates its tables, `manage.py relay_outbox` sends the rows.
"""
