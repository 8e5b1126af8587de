"""How a broker is set up: our config, and Apache's keys for it."""
