"""Client side of the API, used by `services.client`: HTTP calls, models of the responses, and an iterator over the rows of results."""
