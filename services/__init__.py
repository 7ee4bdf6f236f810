"""The outside world: command line, and later API, ingest, results, metrics."""
