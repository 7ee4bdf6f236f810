"""Virtual time: the pure ring under an event heap, with workloads, faults and checkers."""
