"""The images that everything else stands on, made from Debian packages: no registry is needed."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from .containerd import PAUSE_IMAGE
from .layout import CACHE
from .shell import run

BASE_IMAGE = "localhost/gt-base:bookworm"
_STORE = CACHE / "images"
_SUITE = "bookworm"
_PACKAGES = "python3,python3-venv,ca-certificates"

_PAUSE_CONTAINERFILE = """\
FROM scratch
COPY busybox /bin/busybox
COPY busybox /bin/sh
ENTRYPOINT ["/bin/busybox", "sleep", "2147483647"]
"""


def buildah(*arguments: str | Path, timeout: float = 1800.0, cwd: Path | None = None) -> str:
    """Run buildah on the harness's own store of images.

    Raises:
        CommandError: buildah failed; the message ends with what it said.
    """
    # chroot isolation and overlay storage work without the rights that a container engine would need.
    environment: Mapping[str, str] = {"BUILDAH_ISOLATION": "chroot", "STORAGE_DRIVER": "overlay"}
    store = ("--root", _STORE, "--runroot", Path("/run/gt-localkube-images"))
    return run("buildah", *store, *arguments, env=environment, timeout=timeout, cwd=cwd)


def release_store() -> None:
    """Undo the mount that buildah keeps on its store, unless another build is using it."""
    run("umount", _STORE / "overlay", check=False)


def has_image(name: str) -> bool:
    """Say whether the store holds an image."""
    return name in buildah("images", "--format", "{{.Name}}:{{.Tag}}").split()


def export(image: str, archive: Path) -> None:
    """Write an image as an archive that a node can import."""
    # Written aside first: an archive that is there is complete.
    unfinished = archive.with_suffix(".unfinished")
    unfinished.unlink(missing_ok=True)
    buildah("push", "--quiet", image, f"docker-archive:{unfinished}:{image}")
    unfinished.replace(archive)


def pause_archive() -> Path:
    """Return the archive of the image that holds a pod's namespaces open; it also has a busybox shell."""
    archive = CACHE / "pause.tar"
    if not archive.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as context:
            shutil.copy("/bin/busybox", context)
            containerfile = Path(context) / "Containerfile"
            containerfile.write_text(_PAUSE_CONTAINERFILE)
            buildah("build", "--quiet", "--tag", PAUSE_IMAGE, context)
        export(PAUSE_IMAGE, archive)
    return archive


def ensure_base_image() -> None:
    """Make the Debian image with Python that the project's image is built on, once a machine."""
    if has_image(BASE_IMAGE):
        return
    print(f"making {BASE_IMAGE} from Debian packages", flush=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        tree = Path(folder) / "tree"
        run("debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE, tree, timeout=1800)
        for downloads in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(tree / downloads)
        container = buildah("from", "scratch").strip()
        buildah("add", "--quiet", container, tree, "/")
        buildah("commit", "--quiet", "--rm", container, BASE_IMAGE)
