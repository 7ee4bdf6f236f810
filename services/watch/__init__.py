"""View of the running system for the service: polled once per second for all readers, with a history of some minutes."""
