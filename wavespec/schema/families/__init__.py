"""Families: a template and a grid of parameters go in; kernels, with places in the template, come out."""
