"""Answers for readers of the service, and rows that callers bring."""
