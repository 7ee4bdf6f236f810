"""What is declared, and kept: priority classes, tenants, streams, queries, keys, and who has changed them."""
