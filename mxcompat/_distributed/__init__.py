"""Groups of processes: how they find each other and agree on collectives, and the launcher."""
