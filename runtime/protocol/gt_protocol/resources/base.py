"""What all models of the custom resources share."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from gt_protocol.resources.rules import Rule, Transition

QUANTITY_PATTERN = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

Quantity = Annotated[
    int | Annotated[str, Field(pattern=QUANTITY_PATTERN)],
    Field(json_schema_extra={"x-kubernetes-int-or-string": True, "pattern": QUANTITY_PATTERN}),
]
"""An amount such as `500m`, `4Gi` or 2."""

GroupName = Annotated[str, Field(min_length=1, max_length=40, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
ObjectName = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$")]
ConfigMapKey = Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")]

NAME_PATTERN = "[a-z]([-a-z0-9]*[a-z0-9])?"
MAX_NAME = 40
"""Longest name of a GTCluster or GTJob: what is made for it gets longer names, which end at 63 characters."""


class Model(BaseModel):
    """A node of a custom resource: camelCase names, no unknown fields, no silent conversion of types.

    Attributes:
        rules: What must hold for the node.
        transitions: What must hold when it changes.
    """

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        strict=True,
        use_attribute_docstrings=True,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()
    transitions: ClassVar[tuple[Transition, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _drop_nulls(cls, value: Any) -> Any:
        # As the API server does: null stands for a field that isn't there.
        if not isinstance(value, dict):
            return value
        optional = {field.alias for field in cls.model_fields.values() if not field.is_required()}
        return {name: item for name, item in value.items() if item is not None or name not in optional}

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        for rule in self.rules:
            if not rule.holds(self):
                raise ValueError(rule.message)
        return self


@dataclass(frozen=True)
class ListMap:
    """Marks a list whose items are told apart by one required field, which is then unique in the list.

    Attributes:
        key: That field.
    """

    key: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Adds the check that keys are unique."""
        return core_schema.no_info_after_validator_function(self._check_unique, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """Adds the words that tell the API server the same."""
        marks = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [self.key]}
        return {**handler(schema), **marks}

    def _check_unique(self, items: list[Any]) -> list[Any]:
        keys = [getattr(item, self.key) for item in items]
        for key in keys:
            if keys.count(key) > 1:
                raise ValueError(f"two items have the {self.key} {key!r}")
        return items


def name_rules(kind: str) -> tuple[Rule, ...]:
    """Rules for the name of a GTCluster or GTJob."""
    return (
        Rule(
            cel=f"size(self.metadata.name) <= {MAX_NAME}",
            message=f"the name of a {kind} has at most {MAX_NAME} characters",
            holds=lambda resource: len(resource.metadata.name) <= MAX_NAME,
        ),
        Rule(
            cel=f"self.metadata.name.matches('^{NAME_PATTERN}$')",
            message=f"the name of a {kind} starts with a letter and has lower-case letters, digits and - only",
            holds=lambda resource: re.fullmatch(NAME_PATTERN, resource.metadata.name) is not None,
        ),
    )


class ObjectMeta(Model):
    """The metadata that GT reads; all others are kept as they are."""

    model_config = ConfigDict(extra="allow")

    name: Annotated[str, Field(min_length=1, max_length=253)]
    """Name of the object."""
    namespace: str = "default"
    """Namespace of the object."""
    uid: str = ""
    """Identity that the API server gave; empty before."""
    generation: int = 0
    """Number of the specification, counted by the API server; 0 before."""
    labels: dict[str, str] = Field(default_factory=dict)
    """Labels of the object."""
    annotations: dict[str, str] = Field(default_factory=dict)
    """Annotations of the object."""
    deletion_timestamp: str | None = None
    """When deletion was asked for."""


class ConfigMapKeyRef(Model):
    """A key of a ConfigMap in the same namespace."""

    name: ObjectName
    """Name of the ConfigMap."""
    key: ConfigMapKey = "sharding.yaml"
    """Key in the ConfigMap that holds the file."""


class ContainerOverlay(Model):
    """Fields of a container that replace or add to what GT sets."""

    model_config = ConfigDict(extra="allow")

    name: Annotated[str, Field(min_length=1, max_length=63, pattern=r"^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$")]
    """Name of the container. GT's own container is named after its part (dispatcher, worker or client), and "*" means
    it too. Any other name adds a container."""


class PodSpecOverlay(Model):
    """Fields of a pod's specification that replace or add to what GT sets."""

    model_config = ConfigDict(extra="allow")

    containers: Annotated[list[ContainerOverlay], ListMap("name"), Field(max_length=32)] | None = None
    """Containers, merged by name."""


class TemplateMeta(Model):
    """Metadata added to a pod."""

    labels: dict[str, str] | None = None
    """Labels to add."""
    annotations: dict[str, str] | None = None
    """Annotations to add."""


class PodTemplate(Model):
    """A pod template that is laid over the pod that GT makes, like a strategic merge patch."""

    metadata: TemplateMeta | None = None
    """Labels and annotations to add."""
    spec: PodSpecOverlay | None = None
    """Any field of a pod's specification: nodeSelector, tolerations, volumes, containers, ..."""


class ResourceRequirements(Model):
    """Compute resources of a container."""

    requests: Annotated[dict[str, Quantity], Field(max_length=32)] | None = None
    """What is reserved, by the resource's name."""
    limits: Annotated[dict[str, Quantity], Field(max_length=32)] | None = None
    """What may be used at most, by the resource's name."""


class Condition(Model):
    """A condition in the form of metav1.Condition."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """What the condition tells about."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    reason: Annotated[str, Field(min_length=1, max_length=1024)]
    """Why, as one word."""
    message: Annotated[str, Field(max_length=32768)]
    """Why, for a person."""
    last_transition_time: Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]
    """When the status last changed."""
    observed_generation: int = Field(default=0, ge=0)
    """Generation of the specification that it was made from."""
