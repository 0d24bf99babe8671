"""The programs of the local cluster, built from source as Go modules and kept in a cache per user."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from .shell import run

KUBERNETES_VERSION = "v1.34.4"
COREDNS_VERSION = "v1.14.6"
HELM_VERSION = "v3.22.0"

KUBERNETES_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy")

# A first build on two slow cores takes a quarter of an hour; only a hang takes this long.
_BUILD_TIMEOUT = 3600.0


@dataclass(frozen=True)
class Program:
    """One program of the cluster: its file name, and the Go package and version it is built from."""

    name: str
    package: str
    version: str


def programs() -> list[Program]:
    """Return all programs that the cluster needs and this machine does not bring itself."""
    names = list(KUBERNETES_PROGRAMS)
    if shutil.which("kubectl") is None:
        names.append("kubectl")
    return [
        *(Program(name, f"k8s.io/kubernetes/cmd/{name}", KUBERNETES_VERSION) for name in names),
        Program("helm", "helm.sh/helm/v3/cmd/helm", HELM_VERSION),
        Program("coredns", "github.com/coredns/coredns", COREDNS_VERSION),
    ]


def missing(bin_dir: Path) -> list[Program]:
    """Return the programs that ``bin_dir`` lacks or holds in another version."""
    return [program for program in programs() if not _is_built(bin_dir, program)]


def build_missing(cache: Path) -> None:
    """Build what ``cache/bin`` lacks; does nothing once all is there.

    Raises:
        CommandError: A build failed; the message ends with what the compiler said.
    """
    bin_dir = cache / "bin"
    bin_dir.mkdir(parents=True, exist_ok=True)
    wanted = missing(bin_dir)
    kubernetes = [program for program in wanted if program.version == KUBERNETES_VERSION]
    if kubernetes:
        _build_kubernetes(cache / "go" / f"kubernetes-{KUBERNETES_VERSION}", bin_dir, kubernetes)
    for program in wanted:
        if program not in kubernetes:
            print(f"building {program.name} {program.version}", flush=True)
            _go("install", "-trimpath", f"{program.package}@{program.version}", env={"GOBIN": str(bin_dir)})
            _mark_built(bin_dir, program)


def _build_kubernetes(module: Path, bin_dir: Path, wanted: list[Program]) -> None:
    """Build programs of the ``k8s.io/kubernetes`` module.

    The module can't be installed directly: it replaces its staging modules by folders that exist only in its
    repository. A module of our own replaces them by the published versions of the same code instead.
    """
    module.mkdir(parents=True, exist_ok=True)
    description = _go("mod", "download", "-json", f"k8s.io/kubernetes@{KUBERNETES_VERSION}", cwd=module)
    match = re.search(r'"GoMod": "([^"]+)"', description)
    if match is None:
        raise ValueError(f"'go mod download -json' named no go.mod file: {description}")
    upstream = Path(match.group(1)).read_text()
    (module / "go.mod").write_text(_wrapping_module(upstream))
    (module / "tools.go").write_text(_importing_file(program.package for program in wanted))
    _go("mod", "tidy", cwd=module)
    print(f"building {', '.join(program.name for program in wanted)} {KUBERNETES_VERSION}", flush=True)
    _go(
        "build",
        "-trimpath",
        "-ldflags",
        _version_flags(),
        "-o",
        f"{bin_dir}/",
        *(program.package for program in wanted),
        cwd=module,
    )
    for program in wanted:
        _mark_built(bin_dir, program)


def _wrapping_module(upstream: str) -> str:
    """Return the text of a go.mod that requires kubernetes and pins its staging modules."""
    go_line = re.search(r"^go .*$", upstream, re.MULTILINE)
    if go_line is None:
        raise ValueError("the go.mod of k8s.io/kubernetes has no go line")
    staging = re.findall(r"^\s*(\S+) => \./staging/", upstream, re.MULTILINE)
    # Kubernetes v1.X.Y publishes its staging modules as v0.X.Y.
    version = KUBERNETES_VERSION.replace("v1.", "v0.", 1)
    replacements = "\n".join(f"replace {name} => {name} {version}" for name in staging)
    return (
        f"module localkube\n\n{go_line.group(0)}\n\nrequire k8s.io/kubernetes {KUBERNETES_VERSION}\n\n{replacements}\n"
    )


def _importing_file(packages: Iterable[str]) -> str:
    """Return a Go file that makes ``go mod tidy`` keep what the programs import.

    Main packages can't be imported in a build, hence the build tag that no build sets.
    """
    imports = "\n".join(f'\t_ "{package}"' for package in packages)
    return f"//go:build tools\n\npackage tools\n\nimport (\n{imports}\n)\n"


def _version_flags() -> str:
    """Return linker flags that set the version, without which clients refuse the server."""
    _, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
    package = "k8s.io/component-base/version"
    values = {"gitVersion": KUBERNETES_VERSION, "gitMajor": "1", "gitMinor": minor, "gitTreeState": "clean"}
    return " ".join(["-s", "-w", *(f"-X {package}.{name}={value}" for name, value in values.items())])


def _go(*arguments: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    go = shutil.which("go") or "/usr/local/go/bin/go"
    # CGO off: the programs then need no C compiler and depend on no library of this machine.
    settings = {"CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false", **(env or {})}
    return run(go, *arguments, cwd=cwd, env=settings, timeout=_BUILD_TIMEOUT)


def _stamp(bin_dir: Path, program: Program) -> Path:
    return bin_dir / f".{program.name}.version"


def _is_built(bin_dir: Path, program: Program) -> bool:
    stamp = _stamp(bin_dir, program)
    built = os.access(bin_dir / program.name, os.X_OK) and stamp.exists()
    return built and stamp.read_text().strip() == program.version


def _mark_built(bin_dir: Path, program: Program) -> None:
    _stamp(bin_dir, program).write_text(program.version + "\n")
