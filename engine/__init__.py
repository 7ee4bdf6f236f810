"""What a class runs: SQL, plans, the operator network, trains of tuples through it. Pure."""
