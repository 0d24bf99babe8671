"""What a job's container says of its process: command, environment and working directory."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from gt_cli.local.manifests import ConfigRef, Found, Manifests
from gt_protocol.resources import GTJob

#: GT's own container is named after its part; "*" means it too.
NAMES: Final = ("client", "*")

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))")


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, strict=True, extra="forbid")


class _KeyRef(_Part):
    name: str
    key: str
    optional: bool = False


class _Source(_Part):
    model_config = ConfigDict(extra="allow")

    config_map_key_ref: _KeyRef | None = None


class _Variable(_Part):
    name: Annotated[str, Field(min_length=1)]
    value: str | None = None
    value_from: _Source | None = None


class _MapRef(_Part):
    name: str
    optional: bool = False


class _Variables(_Part):
    model_config = ConfigDict(extra="allow")

    prefix: str = ""
    config_map_ref: _MapRef | None = None


class _Container(_Part):
    """The fields of a container that a local run uses."""

    model_config = ConfigDict(extra="allow")

    command: list[str] = Field(default_factory=list)
    args: list[str] = Field(default_factory=list)
    env: list[_Variable] = Field(default_factory=list)
    env_from: list[_Variables] = Field(default_factory=list)
    working_dir: str | None = None


@dataclass(frozen=True)
class ContainerProcess:
    """The process of a container.

    Attributes:
        field: Path of the container in its document.
        command: Command and arguments; references to variables are still in them.
        env: Variables.
        working_dir: Working directory, or None.
    """

    field: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    working_dir: str | None

    def arguments(self, settings: Mapping[str, str]) -> tuple[str, ...]:
        """Command and arguments, with `$(NAME)` replaced as Kubernetes does.

        Args:
            settings: Variables that the job gets besides its own.
        """
        known = {**self.env, **settings}
        return tuple(expand(word, known) for word in self.command)


def read_container(job: Found[GTJob], manifests: Manifests) -> ContainerProcess:
    """Reads the container of a job.

    Raises:
        ManifestError: It is wrong, has no command, or takes a variable from something that isn't in the files.
    """
    template = job.object.spec.template
    containers = (template.spec.containers if template is not None and template.spec is not None else None) or []
    index = _choose(job, [container.name for container in containers])
    field = f"spec.template.spec.containers[{index}]"
    try:
        container = _Container.model_validate(containers[index].model_extra or {})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        said = "" if first["type"] in ("missing", "extra_forbidden") else f", not {first['input']!r:.60}"
        raise job.document.error(first["msg"] + said, field + path) from None
    if not container.command:
        raise job.document.error("is required to run here: what the image would start is not known", f"{field}.command")
    env = _environment(job, manifests, field, container)
    return ContainerProcess(field, (*container.command, *container.args), env, container.working_dir)


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replaces `$(NAME)` by the variable if there is one, and `$$` by `$`, as Kubernetes does."""

    def replace(match: re.Match[str]) -> str:
        name = match.group(1)
        return "$" if name is None else variables.get(name, match.group())

    return _REFERENCE.sub(replace, text)


def _choose(job: Found[GTJob], names: list[str]) -> int:
    for name in NAMES:
        if name in names:
            return names.index(name)
    if len(names) == 1:
        return 0
    raise job.document.error(
        'needs a container named "client" with the command to run', "spec.template.spec.containers"
    )


def _environment(job: Found[GTJob], manifests: Manifests, field: str, container: _Container) -> dict[str, str]:
    env: dict[str, str] = {}
    for index, source in enumerate(container.env_from):
        env.update(_from_map(job, manifests, f"{field}.envFrom[{index}]", source))
    for index, variable in enumerate(container.env):
        value = _value(job, manifests, f"{field}.env[{index}]", variable)
        if value is not None:
            env[variable.name] = expand(value, env) if variable.value_from is None else value
    for name, value in env.items():
        if "=" in name or "\0" in name + value:
            raise job.document.error(f"the variable {name!r} can't be set: it holds = or a zero byte", f"{field}.env")
    return env


def _from_map(job: Found[GTJob], manifests: Manifests, field: str, source: _Variables) -> dict[str, str]:
    _refuse_others(job, field, source.model_extra)
    ref = source.config_map_ref
    if ref is None:
        raise job.document.error("is required", f"{field}.configMapRef")
    data = manifests.config_data(
        ConfigRef(job.document, f"{field}.configMapRef", job.key[0], ref.name, "", ref.optional)
    )
    return {source.prefix + key: value for key, value in data.items()}


def _value(job: Found[GTJob], manifests: Manifests, field: str, variable: _Variable) -> str | None:
    if variable.value_from is None:
        return variable.value or ""
    if variable.value is not None:
        raise job.document.error("not beside value: keep one of them", f"{field}.valueFrom")
    _refuse_others(job, f"{field}.valueFrom", variable.value_from.model_extra)
    ref = variable.value_from.config_map_key_ref
    if ref is None:
        raise job.document.error("is required", f"{field}.valueFrom.configMapKeyRef")
    path = f"{field}.valueFrom.configMapKeyRef"
    return manifests.config_value(ConfigRef(job.document, path, job.key[0], ref.name, ref.key, ref.optional))


def _refuse_others(job: Found[GTJob], field: str, others: Mapping[str, Any] | None) -> None:
    for name in others or {}:
        raise job.document.error(
            "only a cluster has it; take the value from a ConfigMap, or set it with value", f"{field}.{name}"
        )
