"""What Prometheus is told of the running system."""
