"""From `torch.compile` to Inductor's loop IR and back: the backend function, its options, policies and wrapper code."""
