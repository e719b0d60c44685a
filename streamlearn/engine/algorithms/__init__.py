# One file a family of algorithms: slot layout and hooks, inlined into the loop of learn.pyx.
