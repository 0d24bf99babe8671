"""The operator as a process against a real API server, with no more rights than the chart gives it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

Object = dict[str, Any]

ROOT = Path(__file__).resolve().parents[3]
NAME = "gt-operator"


class Namespace:
    """kubectl as the cluster's administrator, in one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str) -> None:
        self.namespace = namespace
        self._kubeconfig = kubeconfig

    def __call__(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Runs a command and returns its output."""
        words = ["kubectl", f"--kubeconfig={self._kubeconfig}", f"--namespace={self.namespace}", *arguments]
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=120)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def apply(self, *objects: Object) -> None:
        """Applies objects."""
        manifest = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        self("apply", "--filename=-", stdin=manifest)

    def get(self, kind: str, name: str) -> Object:
        """Returns an object."""
        found: Object = json.loads(self("get", kind, name, "--output=json"))
        return found

    def items(self, kinds: str, labels: str = "") -> list[Object]:
        """Returns all objects of some kinds."""
        listing: Object = json.loads(self("get", kinds, f"--selector={labels}", "--output=json"))
        items: list[Object] = listing["items"]
        return items

    def wait_reason(self, kind: str, name: str, reason: str, seconds: int = 10) -> str:
        """Waits until an object's reason is as given; returns the message of its first condition."""
        wanted = f"--for=jsonpath={{.status.reason}}={reason}"
        done = self("wait", f"{kind}/{name}", wanted, f"--timeout={seconds}s", check=False)
        status = self.get(kind, name).get("status", {})
        assert done, f"{name} is not {reason} but {status}"
        return str(status["conditions"][0]["message"])


class OperatorProcess:
    """One replica of the operator, for one namespace."""

    def __init__(self, kubeconfig: Path, namespace: str, log: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._port = free.getsockname()[1]
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(log.parent),
            "KUBECONFIG": str(kubeconfig),
            "GT_OPERATOR_IMAGE": "localhost:1/gt:none",
            "GT_OPERATOR_LEASE_NAMESPACE": namespace,
            "GT_OPERATOR_NAMESPACES": namespace,
            "GT_OPERATOR_PORT": str(self._port),
            "GT_LOG_FORMAT": "json",
        }
        command = ["-m", "kopf", "run", "-m", "gt_operator.main", "--standalone", f"--namespace={namespace}"]
        self.log = log
        with log.open("wb") as output:
            # Not in the checkout: its folder `operator` is not meant to be imported from there.
            self._process = subprocess.Popen(
                [sys.executable, *command], cwd=log.parent, env=env, stdout=output, stderr=subprocess.STDOUT
            )

    def fetch(self, path: str) -> str:
        """Returns what it answers to a GET; empty if it doesn't."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=5) as answer:
                text: str = answer.read().decode()
                return text
        except OSError:
            return ""

    def metric(self, name: str, label: str = "") -> float:
        """Returns the sum of a metric over its labels, or over those with a text in them."""
        lines = [line for line in self.fetch("/metrics").splitlines() if re.match(rf"{name}[{{ ]", line)]
        return sum(float(line.rpartition(" ")[2]) for line in lines if label in line)

    @property
    def leads(self) -> bool:
        """Whether it leads."""
        return self.metric("gt_operator_leading") == 1

    def wait_ready(self) -> None:
        """Waits until its watches have started."""
        until(lambda: self.fetch("/readyz") == "ok\n", 30, lambda: self.log.read_text())

    def kill(self) -> None:
        """Ends it by force."""
        self._process.kill()
        self._process.wait(10)

    def stop(self) -> float:
        """Ends it as Kubernetes does; returns how many seconds that took."""
        started = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(15)
        finally:
            self._process.kill()
            self._process.wait(10)
        return time.monotonic() - started


def until(holds: Callable[[], bool], seconds: float, explain: Callable[[], str] = lambda: "") -> float:
    """Waits until something holds; returns how many seconds it took."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < seconds, f"did not come true within {seconds} s: {explain()}"
        time.sleep(0.1)
    return time.monotonic() - started


def rules_of_the_chart() -> list[Object]:
    """The rights that the rendered chart gives to the operator."""
    documents = yaml.safe_load_all((ROOT / "deploy" / "gt.yaml").read_text("utf-8"))
    role = next(each for each in documents if each["kind"] == "ClusterRole" and each["metadata"]["name"] == NAME)
    rules: list[Object] = role["rules"]
    return rules


def give_rights(kubectl: Namespace, folder: Path) -> Path:
    """Makes a ServiceAccount with the operator's rights in a namespace; returns a kubeconfig for it."""
    head = {"name": NAME, "namespace": kubectl.namespace}
    api = "rbac.authorization.k8s.io"
    kubectl.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": head},
        {"apiVersion": f"{api}/v1", "kind": "Role", "metadata": head, "rules": rules_of_the_chart()},
        {
            "apiVersion": f"{api}/v1",
            "kind": "RoleBinding",
            "metadata": head,
            "roleRef": {"apiGroup": api, "kind": "Role", "name": NAME},
            "subjects": [{"kind": "ServiceAccount", **head}],
        },
        {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": head},
    )
    token = kubectl("create", "token", NAME, "--duration=1h").strip()
    config = yaml.safe_load(kubectl("config", "view", "--raw", "--minify"))
    config["users"] = [{"name": config["users"][0]["name"], "user": {"token": token}}]
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config), "utf-8")
    return path
