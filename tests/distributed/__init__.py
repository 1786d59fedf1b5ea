"""Real processes that form groups: mxcompat's by its launcher, real MLX's by the ring backend, with the same jobs."""
