"""Events as arrays: Arrow batches in, what kernels take out."""
