"""A search for specs that are computed wrongly, or whose mistakes are not reported."""
