"""Results of queries for readers of the API, and rows that callers put into streams."""
