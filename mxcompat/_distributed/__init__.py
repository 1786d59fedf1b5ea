"""Groups of processes: who the others are, how they agree, and the launcher."""
