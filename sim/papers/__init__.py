"""What the five papers claim, found again in virtual time."""
