"""Laying pod templates over each other."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gt_operator.errors import TemplateError
from gt_operator.merge import lay_over

BASE = {
    "metadata": {"labels": {"a": "1"}},
    "spec": {
        "containers": [
            {
                "name": "worker",
                "image": "gt",
                "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
                "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
                "resources": {"limits": {"cpu": "1"}},
            }
        ],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
        "tolerations": [{"key": "a"}],
    },
}


def merged(spec: dict[str, Any]) -> dict[str, Any]:
    return lay_over(BASE, {"spec": spec}, "worker")["spec"]


def test_main_container_is_meant_by_its_name_and_by_a_star() -> None:
    for name in ("worker", "*"):
        (container,) = merged({"containers": [{"name": name, "image": "own"}]})["containers"]
        assert (container["name"], container["image"]) == ("worker", "own")
        assert container["env"] == BASE["spec"]["containers"][0]["env"]


def test_other_containers_join() -> None:
    containers = merged({"containers": [{"name": "sidecar", "image": "x"}]})["containers"]
    assert [each["name"] for each in containers] == ["worker", "sidecar"]


def test_variables_and_mounts_are_merged_by_key() -> None:
    overlay = {"name": "*", "env": [{"name": "B", "valueFrom": {"x": 1}}, {"name": "C", "value": "3"}]}
    (container,) = merged({"containers": [overlay]})["containers"]
    assert container["env"] == [
        {"name": "A", "value": "1"},
        {"name": "B", "valueFrom": {"x": 1}},
        {"name": "C", "value": "3"},
    ]


def test_volume_takes_the_place_of_one_of_another_kind() -> None:
    volumes = merged({"volumes": [{"name": "tmp", "hostPath": {"path": "/x"}}]})["volumes"]
    assert volumes == [{"name": "tmp", "hostPath": {"path": "/x"}}]


def test_maps_merge_and_null_removes() -> None:
    overlay = {"name": "*", "image": None, "resources": {"limits": {"memory": "1Gi"}}}
    (container,) = merged({"containers": [overlay], "tolerations": [{"key": "b"}]})["containers"]
    assert "image" not in container
    assert container["resources"]["limits"] == {"cpu": "1", "memory": "1Gi"}
    assert merged({"tolerations": [{"key": "b"}]})["tolerations"] == [{"key": "b"}]


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": [{"image": "x"}]}, r"template\.spec\.containers\[0\]: needs the field name"),
        ({"containers": {"name": "x"}}, r"template\.spec\.containers"),
        ({"containers": [{"name": "*", "env": ["A=1"]}]}, r"containers\[0\]\.env\[0\]: needs the field name"),
        ({"containers": [{"name": "*", "resources": "much"}]}, r"resources: must be a map"),
        ({"volumes": 3}, r"volumes: must be a list"),
    ],
)
def test_wrong_template_names_the_field(spec: dict[str, Any], field: str) -> None:
    with pytest.raises(TemplateError, match=field):
        merged(spec)


_scalars = st.none() | st.booleans() | st.integers(0, 3) | st.sampled_from(["a", "b"])
_named = st.fixed_dictionaries({"name": st.sampled_from(["a", "b", "c"])}, optional={"value": _scalars})
_lists = {name: st.lists(_named, max_size=3, unique_by=lambda item: item["name"]) for name in ("env", "volumes")}
_containers = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["worker", "x"])}, optional={"env": _lists["env"], "image": _scalars}
    ),
    max_size=2,
    unique_by=lambda item: item["name"],
)
_templates = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.dictionaries(st.sampled_from(["labels"]), st.dictionaries(st.sampled_from("ab"), _scalars)),
        "spec": st.fixed_dictionaries(
            {}, optional={"containers": _containers, "volumes": _lists["volumes"], "priority": _scalars}
        ),
    },
)


@settings(deadline=None)
@given(_templates, _templates)
def test_merging_changes_no_input_and_is_idempotent(base: dict[str, Any], overlay: dict[str, Any]) -> None:
    before = copy.deepcopy((base, overlay))
    once = lay_over(base, overlay, "worker")
    assert (base, overlay) == before
    assert lay_over(once, overlay, "worker") == once


@settings(deadline=None)
@given(_templates)
def test_empty_overlay_changes_nothing(base: dict[str, Any]) -> None:
    assert lay_over(base, {}, "worker") == base


@settings(deadline=None)
@given(_templates, _templates)
def test_all_of_the_overlay_shows(base: dict[str, Any], overlay: dict[str, Any]) -> None:
    assert_shows(lay_over(base, overlay, "worker"), overlay)


def assert_shows(result: Any, overlay: Any) -> None:
    if isinstance(overlay, dict):
        for name, value in overlay.items():
            if value is None:
                assert name not in result
            else:
                assert_shows(result[name], value)
    elif isinstance(overlay, list):
        for item in overlay:
            assert_shows(next(each for each in result if each["name"] == item["name"]), item)
    else:
        assert result == overlay
