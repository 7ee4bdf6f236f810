"""Classes that tune themselves, live: who asks the simulator for them."""
