"""The running system as the service sees it: looked at once a second for all who ask, and remembered for a while."""
