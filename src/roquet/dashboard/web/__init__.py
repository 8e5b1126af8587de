"""What a browser may ask for, and who may ask: sessions, logins, the guard, the server."""
