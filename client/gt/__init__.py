"""GT: one PyTorch device, `fleet`, over a cluster of GPUs that many programs share.

    import torch, gt

    x = torch.randn(3, 3, device="fleet")
    print((x @ x).cpu())

Importing this package makes the device known. The first use connects to the dispatcher that `GT_ADDRESS` names, or
starts a fleet of local processes.
"""

from __future__ import annotations

from gt import debug, device, signal
from gt.blocks import builder
from gt.config import load_config, register_config
from gt.connect import connector
from gt.errors import (
    ClientError,
    ConfigError,
    ConnectError,
    GTTimeoutError,
    RemoteError,
    SessionLost,
    SignalError,
    UnsupportedError,
)
from gt_protocol import __version__
from gt_protocol.errors import GTError, ShardingError

__all__ = [
    "ClientError",
    "ConfigError",
    "ConnectError",
    "GTError",
    "GTTimeoutError",
    "RemoteError",
    "SessionLost",
    "ShardingError",
    "SignalError",
    "UnsupportedError",
    "__version__",
    "connect",
    "debug",
    "device",
    "disconnect",
    "gpu_workers",
    "instructions",
    "load_config",
    "register_config",
    "set_timeout",
    "signal",
]

gpu_workers = connector.gpu_workers
disconnect = connector.disconnect
set_timeout = connector.set_timeout


def connect(address: str | None = None) -> None:
    """Begins the program's session now, instead of on first use.

    Args:
        address: The dispatcher, such as `tcp://host:7070`; None for `GT_ADDRESS`, or else a local fleet.

    Raises:
        ClientError: A session has begun already, or none can be made.
    """
    connector.connect(address)


def instructions() -> int:
    """Number of instructions that this process has emitted so far."""
    return builder.emitted
