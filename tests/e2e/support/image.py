"""The project's image, built from its Dockerfile with buildah."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.localkube.base_images import BASE_IMAGE, buildah, export
from tests.e2e.localkube.layout import CACHE

ROOT = Path(__file__).parents[3]
CERTIFICATES = Path("/etc/ssl/certs")


@dataclass(frozen=True)
class Image:
    """A built image."""

    repository: str
    tag: str

    @property
    def name(self) -> str:
        """The image's full name."""
        return f"{self.repository}:{self.tag}"


def build(with_torch: bool, target: str = "gt", timeout: float = 1800.0) -> Image:
    """Build the image; layers whose sources did not change are reused.

    Args:
        with_torch: Whether to install PyTorch and its several gigabytes of libraries.
        target: The Dockerfile's stage.
        timeout: Seconds the build may take.

    Raises:
        CommandError: The build failed; the message ends with its output.
    """
    image = Image(f"localhost/{target}", "full" if with_torch else "e2e")
    buildah(
        "build",
        "--layers",
        "--force-rm",
        # The package index is reached as this machine reaches it, with the certificates that it trusts.
        "--network=host",
        f"--volume={CERTIFICATES}:{CERTIFICATES}:ro",
        f"--build-arg=BASE_IMAGE={BASE_IMAGE}",
        f"--build-arg=WITH_TORCH={int(with_torch)}",
        f"--target={target}",
        f"--tag={image.name}",
        ROOT,
        timeout=timeout,
    )
    return image


def archive(image: Image) -> Path:
    """Write an image to an archive that nodes can import, and return its path."""
    path = CACHE / f"{re.sub('[^a-z0-9]+', '-', image.name)}.tar"
    export(image.name, path)
    return path
