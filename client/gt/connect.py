"""The program's one session: made on first use, ended with the process."""

from __future__ import annotations

import atexit
import os
import threading
from dataclasses import dataclass, replace

from gt import config
from gt.blocks import builder
from gt.errors import ClientError, ConfigError
from gt.session import Session, SessionSettings
from gt_fleet import LocalFleet
from gt_protocol.keys import PeerKeys, read_peer_keys
from gt_protocol.settings import ClientSettings
from gt_protocol.sharding import parse_sharding


@dataclass
class _Connection:
    session: Session
    fleet: LocalFleet | None


class Connector:
    """Makes the session, with a local fleet if no address is given."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._connection: _Connection | None = None
        self._workers: int | None = None
        self._timeout: float | None = None
        self._forked = False
        os.register_at_fork(after_in_child=self._note_fork)

    def current(self) -> Session:
        """The session; made now if there is none.

        Raises:
            ClientError: It can't be made, or it belongs to the process that this one was forked from.
        """
        connection = self._connection
        if connection is None:
            return self.connect(None)
        if self._forked:
            raise ClientError(
                "this process was forked from one that uses the fleet, and can't share its session: "
                "keep fleet tensors out of DataLoader workers and forked children, or start them with 'spawn'"
            )
        return connection.session

    @property
    def connected(self) -> bool:
        """Whether there is a session."""
        return self._connection is not None

    def connect(self, address: str | None) -> Session:
        """Makes the session.

        Args:
            address: The dispatcher, or None for `GT_ADDRESS` or else a local fleet.

        Raises:
            ClientError: There is one already, or none can be made.
        """
        with self._lock:
            if self._connection is not None:
                if address is None:
                    return self.current()
                raise ClientError("a session has begun already: call gt.disconnect() first")
            settings = ClientSettings.from_env()
            if address is not None:
                settings = replace(settings, address=address)
            sharding = config.holder.begin(settings)
            rules = parse_sharding(sharding.text, source=sharding.source) if sharding.text else None
            builder.regions.follow(rules)
            try:
                self._connection = self._open(settings, sharding)
            except BaseException:
                config.holder.fail()
                raise
            return self._connection.session

    def disconnect(self) -> None:
        """Ends the session and the local fleet, if there are any."""
        with self._lock:
            connection, self._connection = self._connection, None
        if connection is None or self._forked:
            return
        connection.session.close()
        # Without our lock: who emits holds the builder's lock and may be waiting for ours.
        builder.reset()
        if connection.fleet is not None:
            connection.fleet.stop()
        config.holder.end()

    def gpu_workers(self, count: int) -> None:
        """Sets the size of the local fleet that the first use starts.

        Raises:
            ConfigError: The session has begun, or the number can't be used.
        """
        if count < 1:
            raise ConfigError(f"a fleet has at least one worker, not {count}")
        with self._lock:
            if self._connection is not None:
                raise ConfigError("the session has begun: call gt.gpu_workers before the first use of the fleet")
            self._workers = count

    def set_timeout(self, seconds: float) -> None:
        """Sets how long a read waits, now and for later sessions."""
        if seconds <= 0:
            raise ConfigError(f"a timeout is more than 0 seconds, not {seconds}")
        with self._lock:
            self._timeout = seconds
            if self._connection is not None:
                self._connection.session.timeout = seconds

    def _open(self, settings: ClientSettings, sharding: config.Sharding) -> _Connection:
        fleet: LocalFleet | None = None
        address, cluster_uid = settings.address, settings.cluster_uid
        keys: PeerKeys | None = None
        if address is None:
            fleet = LocalFleet.start(self._workers or settings.workers or 1)
            address, cluster_uid = fleet.address, fleet.cluster_uid
        elif settings.keys is not None:
            keys = read_peer_keys(settings.keys, "client")
        try:
            session = Session(
                SessionSettings(
                    address=address,
                    cluster_uid=cluster_uid,
                    keys=keys,
                    sharding=sharding.text,
                    sharding_source=sharding.source,
                    timeout=self._timeout or settings.timeout,
                    watch=fleet.ended if fleet is not None else lambda: None,
                )
            )
        except BaseException:
            if fleet is not None:
                fleet.stop()
            raise
        return _Connection(session, fleet)

    def _note_fork(self) -> None:
        """In a forked child: the session, if there is one, belongs to the parent."""
        self._forked = self._connection is not None


connector = Connector()
atexit.register(connector.disconnect)
