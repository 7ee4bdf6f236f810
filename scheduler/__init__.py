"""Who runs next: turns between classes, operators within a class, capacity between classes. Pure."""
