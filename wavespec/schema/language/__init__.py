"""What a spec can say: models of kernels and families, constraints, names, element types, expressions."""
