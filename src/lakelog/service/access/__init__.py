"""Users, passwords, tokens and sessions of the services that listen on the network."""
