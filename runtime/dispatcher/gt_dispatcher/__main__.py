"""`python -m gt_dispatcher`: runs a dispatcher, set up by `GT_*` variables."""

from __future__ import annotations

import gc
import signal
import sys

from gt_dispatcher.server import Server
from gt_protocol.errors import GTError
from gt_protocol.lifeline import watch_lifeline
from gt_protocol.logs import configure_logging
from gt_protocol.settings import DispatcherSettings


def main() -> int:
    """Runs until SIGTERM or SIGINT; returns the exit status."""
    log = configure_logging("dispatcher")
    watch_lifeline()
    try:
        server = Server(DispatcherSettings.from_env(), log)
    except GTError as error:
        log.error("can't start", reason=str(error))
        return 2
    signal.signal(signal.SIGTERM, lambda *_: server.stop())
    signal.signal(signal.SIGINT, lambda *_: server.stop())
    # What is there by now stays: no collection has to walk it again.
    gc.freeze()
    server.run()
    log.info("stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
