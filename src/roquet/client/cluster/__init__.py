"""One client of a cluster: connections, name servers, routes, heartbeats, questions to brokers."""
