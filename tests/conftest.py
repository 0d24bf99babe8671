"""For all tests."""

from __future__ import annotations

import signal

# A shell that starts something in the background lets it ignore Ctrl-C, and its children with it; tests press it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
