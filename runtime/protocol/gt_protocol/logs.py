"""Logging of a process: structlog, JSON lines in a pod and coloured lines on a terminal."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Mapping

import structlog

from gt_protocol.settings import LOG_FORMAT, LOG_LEVEL


def configure_logging(component: str, env: Mapping[str, str] = os.environ) -> structlog.stdlib.BoundLogger:
    """Sets up logging to standard error, and returns the component's logger.

    `GT_LOG_FORMAT` is `json` or `console` (default: console on a terminal, else JSON); `GT_LOG_LEVEL` names a level.
    """
    wanted = env.get(LOG_FORMAT) or ("console" if sys.stderr.isatty() else "json")
    level = logging.getLevelNamesMapping().get(env.get(LOG_LEVEL, "INFO").upper(), logging.INFO)
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if wanted == "json" else structlog.dev.ConsoleRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logger: structlog.stdlib.BoundLogger = structlog.get_logger(component=component)
    return logger
