"""`python -m gt_worker`: runs a worker, set up by `GT_*` variables.

Exit status: 0 after SIGTERM, SIGINT or the dispatcher's order to stop; 2 if the worker can't start or is not accepted;
3 if the dispatcher broke the protocol, after which nothing that the worker holds can be trusted.
"""

from __future__ import annotations

import gc
import os
import signal
import sys

import structlog

from gt_protocol.endpoint import HealthEndpoint
from gt_protocol.errors import GTError, ProtocolError
from gt_protocol.keys import read_peer_keys
from gt_protocol.lifeline import watch_lifeline
from gt_protocol.logs import configure_logging
from gt_protocol.operators import operator_table
from gt_protocol.settings import WorkerSettings
from gt_worker.conversation import Conversation, Introduction
from gt_worker.devices import Device
from gt_worker.executor import Executor
from gt_worker.groups import Groups
from gt_worker.mailbox import Mailbox
from gt_worker.metrics import registry
from gt_worker.rendezvous import Stores
from gt_worker.service import Service
from gt_worker.transport import Transport


def build(settings: WorkerSettings, log: structlog.stdlib.BoundLogger) -> tuple[Service, HealthEndpoint | None]:
    """Puts a worker together.

    Raises:
        GTError: The device, the address or the keys can't be used.
    """
    device = Device(settings.device, settings.host)
    operators = operator_table()
    stores = Stores(settings.host, settings.collective_timeout)
    groups = Groups(settings.index, device, stores, settings.collective_timeout, lambda seconds: service.chore(seconds))
    executor = Executor(settings.index, device, groups, operators)
    is_local = settings.dispatcher.startswith("ipc://")
    about = Introduction(
        cluster_uid=settings.cluster_uid,
        operators=operators.digest,
        index=settings.index,
        device=str(device),
        store=stores.address,
        pid=os.getpid() if is_local else 0,
    )
    keys = None if settings.keys is None else read_peer_keys(settings.keys, "worker")
    if keys is None and not is_local:
        log.warning("the connection to the dispatcher is not encrypted: set GT_KEYS to encrypt and authenticate")
    mailbox = Mailbox(Transport(settings.dispatcher, keys), Conversation(about), groups.announce_drop, log)
    service = Service(mailbox, executor, groups)
    if settings.http_port is None:
        return service, None
    endpoint = HealthEndpoint(
        settings.http_port, healthy=service.healthy, ready=service.ready, registry=registry(executor, device)
    )
    return service, endpoint


def main() -> int:
    """Runs until SIGTERM, SIGINT or an order to stop; returns the exit status."""
    log = configure_logging("worker")
    watch_lifeline()
    try:
        settings = WorkerSettings.from_env()
        log = log.bind(worker=settings.index)
        service, endpoint = build(settings, log)
    except GTError as error:
        log.error("can't start", reason=str(error))
        return 2
    signal.signal(signal.SIGTERM, lambda *_: service.stop())
    signal.signal(signal.SIGINT, lambda *_: service.stop())
    log.info("started", device=settings.device, dispatcher=settings.dispatcher)
    # What is there by now, PyTorch above all, stays: no collection has to walk it again.
    gc.freeze()
    status = 0
    try:
        service.run()
    except ProtocolError as error:
        log.error("the dispatcher broke the protocol", reason=str(error))
        status = 3
    except GTError as error:
        log.error("not accepted", reason=str(error))
        status = 2
    if endpoint is not None:
        endpoint.close()
    log.info("stopped", status=status)
    return status


if __name__ == "__main__":
    exit_status = main()
    sys.stderr.flush()
    # Connections to peers that hang would keep their threads, and so the interpreter, for as long as a collective may
    # take. They hold nothing but sockets, which the system closes.
    os._exit(exit_status)
