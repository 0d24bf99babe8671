"""Makes the device `fleet` known to PyTorch, once in a process."""

from __future__ import annotations

from gt import dispatch, fallbacks, recurrent, transfers
from gt.device_module import fill_module
from gt.factories import register_factories
from gt.formulas import register_formulas

__all__ = ["dispatch", "fallbacks", "recurrent", "transfers"]

fill_module()
register_factories()
register_formulas()
