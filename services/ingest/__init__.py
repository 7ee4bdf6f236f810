"""Input from outside: Spark, and the door of a node for producers over the network."""
