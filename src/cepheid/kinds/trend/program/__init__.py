"""A plan as arrays for the kernels, the linear state of a partition, and its result rows."""
