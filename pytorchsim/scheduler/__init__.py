"""From Inductor's scheduler nodes to kernels: which nodes share one, what it computes, how its indices walk memory."""
