"""Machine code of kernels: how it is compiled, where it is kept, how it comes into a process that runs it."""
