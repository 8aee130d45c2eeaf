"""The finite-difference engine stencil, in process."""
