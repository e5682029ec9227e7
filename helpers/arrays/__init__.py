"""What kernels are called on: drawn inputs, memory that shows mistakes, the batch of a decode step."""
