"""Which broker is master, decided with the help of etcd: no consensus of our own.

`election` decides and knows no sockets; `records` is what etcd stores for the brokers of one name;
`etcd` is its client; `participant` looks at etcd periodically and does what was decided.
"""
