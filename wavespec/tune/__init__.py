"""Finding the settings of a kernel that run fastest on a machine, by measuring candidates."""
