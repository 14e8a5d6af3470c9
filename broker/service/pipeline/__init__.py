"""What drives documents through the two stages: a thread (`driver`), in this process or by
Spark."""
