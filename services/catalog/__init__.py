"""Catalog: declarations of priority classes, tenants, streams, queries and more, with keys and an audit log of changes."""
