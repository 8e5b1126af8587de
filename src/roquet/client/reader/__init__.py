"""A reader of topics that belongs to no group: for tools and data pipelines.

Duty: queues and their bounds, and what lies between two offsets, as raw records and fast.
`reader.py` is the face, `reading.py` the way from pulls to chunks. Doors: the cluster behind
`client.cluster`, one pull in `client.group.pulling`.
"""
