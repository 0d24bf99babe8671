"""Who may talk to the API server: tokens, kubeconfig files, and the key of service accounts."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass
from pathlib import Path

from .layout import Layout
from .shell import run


@dataclass(frozen=True)
class Account:
    """A user of the API server and the groups that give it its rights."""

    user: str
    groups: tuple[str, ...]


ADMIN = Account("admin", ("system:masters",))
# Only tests run here, so the control plane's own parts share the administrator's group; what is tested (the
# operator, its pods, the nodes) has the rights that it would have in any cluster.
CONTROLLER_MANAGER = Account("system:kube-controller-manager", ("system:masters",))
SCHEDULER = Account("system:kube-scheduler", ("system:masters",))
PROXY = Account("system:kube-proxy", ("system:masters",))
COREDNS = Account("coredns", ("system:masters",))


def kubelet_account(node: str) -> Account:
    """Return the account of a node, with the rights of a node and no more."""
    return Account(f"system:node:{node}", ("system:nodes",))


class Credentials:
    """Makes the files that the API server and its clients authenticate with."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        accounts = [ADMIN, CONTROLLER_MANAGER, SCHEDULER, PROXY, COREDNS]
        accounts += [kubelet_account(node.name) for node in layout.nodes]
        self._tokens = {account: secrets.token_hex(16) for account in accounts}

    @property
    def tokens_file(self) -> Path:
        """The list of tokens that the API server reads."""
        return self._layout.state / "tokens.csv"

    @property
    def service_account_key(self) -> Path:
        """The key that signs the tokens of service accounts."""
        return self._layout.pki / "service-accounts.key"

    @property
    def authority(self) -> Path:
        """The API server's certificate, which it signs itself at its first start."""
        return self._layout.pki / "apiserver.crt"

    def write(self) -> None:
        """Write the tokens and the key, before the API server starts."""
        self._layout.pki.mkdir(mode=0o700, parents=True, exist_ok=True)
        run("openssl", "genrsa", "-out", self.service_account_key, "2048")
        lines = (
            f'{token},{account.user},{account.user},"{",".join(account.groups)}"'
            for account, token in self._tokens.items()
        )
        _write_secret(self.tokens_file, "\n".join(lines) + "\n")

    def kubeconfig(self, account: Account) -> Path:
        """Write and return the kubeconfig of an account, after the API server has made its certificate."""
        if account == ADMIN:
            path = self._layout.admin_kubeconfig
        else:
            path = self._layout.state / f"{account.user.replace(':', '_')}.kubeconfig"
        cluster = {
            "server": self._layout.api_server,
            "certificate-authority-data": base64.b64encode(self.authority.read_bytes()).decode(),
        }
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": self._layout.name,
            "clusters": [{"name": self._layout.name, "cluster": cluster}],
            "users": [{"name": account.user, "user": {"token": self._tokens[account]}}],
            "contexts": [{"name": self._layout.name, "context": {"cluster": self._layout.name, "user": account.user}}],
        }
        # JSON is YAML too, so no YAML library is needed.
        _write_secret(path, json.dumps(content, indent=1))
        return path


def _write_secret(path: Path, content: str) -> None:
    path.touch(mode=0o600)
    path.write_text(content)
