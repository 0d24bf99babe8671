"""From a pydantic model to the structural schema that a CustomResourceDefinition takes.

Kubernetes takes a subset of OpenAPI 3.0: every node has a type, there are no references and no unions, and unknown
fields are a matter of pruning, not of the schema.
"""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from gt_protocol.resources.base import Model
from gt_protocol.resources.rules import Rule, Transition

Schema = dict[str, Any]

_NOT_IN_KUBERNETES = ("title", "$defs", "examples", "uniqueItems", "const")
_FIRST = ("description", "type", "default", "enum")
_INT_OR_STRING = "x-kubernetes-int-or-string"
_REFERENCE = "#/$defs/"


class _Generator(GenerateJsonSchema):
    """pydantic's generator, which also tells the rules and the defaults of nested models."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        result = super().model_schema(schema)
        cls = schema["cls"]
        if issubclass(cls, Model) and (cls.rules or cls.transitions):
            rules: list[Rule | Transition] = [*cls.rules, *cls.transitions]
            result["x-kubernetes-validations"] = [{"rule": rule.cel, "message": rule.message} for rule in rules]
        return result

    def get_default_value(self, schema: core_schema.WithDefaultSchema) -> Any:
        factory = schema.get("default_factory")
        if isinstance(factory, type) and issubclass(factory, Model):
            # The API server fills in the rest from the defaults of the fields inside.
            return {}
        return super().get_default_value(schema)


def structural_schema(model: type[Model]) -> Schema:
    """Returns the schema of a custom resource.

    Raises:
        ValueError: The model holds something that Kubernetes can't express.
    """
    raw = model.model_json_schema(by_alias=True, schema_generator=_Generator)
    root = _Converter(raw.get("$defs", {})).convert(raw, ())
    # The API server knows these better than any schema.
    for name, type_ in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
        root["properties"][name] = {"type": type_}
    root["required"] = [name for name in root["required"] if name != "metadata"]
    return root


class _Converter:
    """Rewrites a schema node by node."""

    def __init__(self, definitions: dict[str, Schema]) -> None:
        self._definitions = definitions

    def convert(self, node: Schema, inside: tuple[str, ...]) -> Schema:
        """Converts a node; `inside` names the definitions around it."""
        node, inside = self._resolve(dict(node), inside)
        if node.get("default", "") is None:
            del node["default"]
        if "const" in node:
            node["enum"] = [node["const"]]
        if "description" in node:
            node["description"] = " ".join(node["description"].split())
        _convert_bounds(node)
        self._convert_children(node, inside)
        for name in _NOT_IN_KUBERNETES:
            node.pop(name, None)
        if "type" not in node and not node.get(_INT_OR_STRING):
            raise ValueError(f"a structural schema needs a type: {node}")
        return {name: node[name] for name in dict.fromkeys((*_FIRST, *node)) if name in node}

    def _resolve(self, node: Schema, inside: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """Replaces references and optional values by what they stand for; what stands beside them wins."""
        while True:
            if "$ref" in node:
                name = node.pop("$ref").removeprefix(_REFERENCE)
                if name in inside:
                    raise ValueError(f"a structural schema can't be recursive: {name}")
                inside = (*inside, name)
                node = {**self._definitions[name], **node}
            elif "anyOf" in node and node.get(_INT_OR_STRING):
                del node["anyOf"]
            elif "anyOf" in node:
                alternatives = [one for one in node.pop("anyOf") if one.get("type") != "null"]
                if len(alternatives) != 1:
                    raise ValueError(f"a structural schema can't have a union: {alternatives}")
                node = {**alternatives[0], **node}
            else:
                return node, inside

    def _convert_children(self, node: Schema, inside: tuple[str, ...]) -> None:
        if "properties" in node:
            node["properties"] = {name: self.convert(child, inside) for name, child in node["properties"].items()}
        if "items" in node:
            node["items"] = self.convert(node["items"], inside)
        more = node.pop("additionalProperties", False)
        if more is True:
            node["x-kubernetes-preserve-unknown-fields"] = True
        elif isinstance(more, dict):
            node["additionalProperties"] = self.convert(more, inside)


def _convert_bounds(node: Schema) -> None:
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in node:
            node[bound] = node[exclusive]
            node[exclusive] = True
