"""Access control: accounts, their rights, and the guard that routers ask before each handler.

Knows the wire and nothing of brokers or name servers. Servers declare what each request needs
(`needs`) and ask the guard; operators change accounts through `account_store`.
"""
