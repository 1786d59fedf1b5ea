"""Groups of real processes: mxcompat's use its launcher, real MLX's the ring backend, with the same jobs."""
