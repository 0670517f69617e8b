"""A plan as arrays that kernels run, the linear state of a partition, and its rows."""
