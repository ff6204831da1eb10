"""Sums of which a remainder leaves few terms: rewritten to sums of those, a residue of the results at a time."""
