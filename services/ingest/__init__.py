"""Input from outside: feeds that Spark runs, and the Flight server through which producers on the network send rows."""
