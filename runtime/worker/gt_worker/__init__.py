"""The worker of GT: one device's process, which runs programs and talks to its peers for collectives."""

import os

# PyTorch prints C++ stacks for each connection that fails. The worker turns the same errors into values and log lines;
# this must stand before PyTorch is first imported.
os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
