"""Plans for kernels that say nothing of tiles: the roles of their dims, and tables of tiles by role."""
