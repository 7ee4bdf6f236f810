"""The other side of the API: how `services.client` calls a service, and what it is told."""
