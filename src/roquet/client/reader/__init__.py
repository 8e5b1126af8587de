"""A reader of topics that belongs to no group: for tools and data pipelines.

Duty: queues and their bounds, and the records between two offsets, raw and fast. `reader.py` is the
interface, `range_reader.py` turns pulls into chunks. Depends on `client.cluster`, and for the list
of topics on `client.admin`.
"""
