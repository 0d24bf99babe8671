"""Brings what the end-to-end tests need: ``python -m tests.e2e.support.prepare``, before pytest.

Apart from the tests, because the first time it takes a quarter of an hour and its progress is worth seeing.
"""

from __future__ import annotations

from tests.e2e.localkube import setup

from . import providers


def main() -> None:
    """Install and build what is missing, where this machine makes its own cluster and is able to."""
    if not isinstance(providers.choose(), providers.SourceCluster):
        return
    obstacle = setup.obstacle()
    if obstacle is not None:
        # No failure of the preparation: the tests skip for the same reason, or fail where they are required.
        print(f"nothing prepared: {obstacle}")
        return
    setup.ensure()


if __name__ == "__main__":
    main()
