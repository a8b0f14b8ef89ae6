"""What a session measures: canaries, and the items of strict, depth and ladder workloads."""
