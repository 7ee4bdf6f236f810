"""Query engine of a class: SQL, plans, operator networks, and trains of tuples. It imports neither Ray nor Spark, and reads no clock."""
