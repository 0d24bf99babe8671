"""What two components of GT must agree on: wire messages, blocks, programs, files, settings and errors.

This package imports no sibling, no torch, no kopf and no zmq, so that each component can use it.
"""

__version__ = "0.1.0"
