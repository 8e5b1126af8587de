"""One client of a cluster: connections, name servers, routes, heartbeats, requests to brokers."""
