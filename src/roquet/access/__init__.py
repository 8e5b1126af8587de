"""Who may come in: accounts, their rights, and the guard that servers put behind their doors.

Knows the wire and nothing of brokers or name servers. Servers say what each request needs (`needs`)
and ask the guard; what they do with accounts, as operators ask, goes through `keeping`.
"""
