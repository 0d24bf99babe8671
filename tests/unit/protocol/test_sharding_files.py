"""What sharding files say, in each of their forms, and which rule a name gets."""

from __future__ import annotations

import pytest

from gt_protocol.placements import Replicate, Shard
from gt_protocol.sharding import MeshSpec, ShardingConfig, SignalRule, parse_sharding

EVERYTHING = """\
version: 1
meshes:
  pair: {workers: [0, 1]}
  grid: {workers: [0, 1, 2, 3], shape: {dp: 2, tp: 2}}
signals:
  batch:                {mesh: grid, place: {dp: shard(0)}}
  "*.up_proj.weight":   {mesh: grid, place: {tp: shard(0)}}
  "*.down_proj.weight": {mesh: grid, place: {1: shard( -1 ), dp: replicate}}
  encoder:              {workers: [0, 1], backward: encoder_grad}
  decoder:              {workers: [2, 3], compile: true}
  layer1:               {shard: {axis: 0, workers: [0, 1, 2, 3]}}
  big:                  {mesh: pair, place: {0: shard(1)}, weights: [3, 1.5]}
  measured:             {mesh: grid, place: {tp: shard(1)}, weights: auto}
"""

PAIR = MeshSpec((0, 1), (2,), ("0",))
GRID = MeshSpec((0, 1, 2, 3), (2, 2), ("dp", "tp"))
FOUR = MeshSpec((0, 1, 2, 3), (4,), ("0",))


def test_every_long_form_is_read() -> None:
    assert parse_sharding(EVERYTHING, workers=4).rules == (
        SignalRule("batch", GRID, (Shard(0), Replicate()), line=6),
        SignalRule("*.up_proj.weight", GRID, (Replicate(), Shard(0)), line=7),
        SignalRule("*.down_proj.weight", GRID, (Replicate(), Shard(-1)), line=8),
        SignalRule("encoder", PAIR, backward="encoder_grad", line=9),
        SignalRule("decoder", MeshSpec((2, 3), (2,), ("0",)), compile=True, line=10),
        SignalRule("layer1", FOUR, (Shard(0),), line=11),
        SignalRule("big", PAIR, (Shard(1),), weights=(3.0, 1.5), line=12),
        SignalRule("measured", GRID, (Replicate(), Shard(1)), weights="auto", line=13),
    )


def test_files_of_the_original_form_are_read() -> None:
    text = """
forward_layer1:
  shard:
    axis: 1
    workers: [2, 0]
    replicated: false
  backward: backward_layer1
norm:
  shard: {workers: [0, 1], replicated: yes}
  compile: true
everywhere: {shard: {axis: 0}}
"""
    assert parse_sharding(text, workers=4).rules == (
        SignalRule("forward_layer1", MeshSpec((2, 0), (2,), ("0",)), (Shard(1),), backward="backward_layer1", line=2),
        SignalRule("norm", PAIR, (Replicate(),), compile=True, line=8),
        SignalRule("everywhere", FOUR, (Shard(0),), line=11),
    )
    assert parse_sharding(text).rules[2].mesh == MeshSpec((), (0,), ("0",))


@pytest.mark.parametrize("text", ["", "# nothing\n", "version: 1\n", "version: 1\nsignals:\n", "~"])
def test_a_file_may_say_nothing(text: str) -> None:
    assert parse_sharding(text).rules == ()


def test_names_stay_text_and_anchors_repeat_values() -> None:
    text = "signals:\n  on: {workers: &w [0, 1]}\n  007: {workers: *w}\n"
    assert [(rule.name, rule.mesh) for rule in parse_sharding(text).rules] == [("on", PAIR), ("007", PAIR)]


def config(*names: str, **backward: str) -> ShardingConfig:
    return ShardingConfig(tuple(SignalRule(name, backward=backward.get(name)) for name in names))


def matched(rules: ShardingConfig, name: str) -> str | None:
    rule = rules.match(name)
    return rule.name if rule is not None else None


def test_an_exact_name_wins_then_the_longest_pattern_then_the_later_line() -> None:
    rules = config("*", "layers.*.weight", "*.mlp.*", "*.att.*", "layers.0.mlp.weight", "[!l]*", "*.?lp.*", "*.m?p.*")
    assert matched(rules, "layers.0.mlp.weight") == "layers.0.mlp.weight"
    assert matched(rules, "layers.1.mlp.weight") == "layers.*.weight"
    assert matched(rules, "layers.1.mlp.bias") == "*.m?p.*"
    assert matched(rules, "layers.1.MLP.bias") == "*"
    assert matched(rules, "head") == "[!l]*"
    assert matched(config("layers.*"), "head") is None


def test_a_name_with_glob_characters_matches_itself() -> None:
    assert matched(config("x[0]", "*"), "x[0]") == "x[0]"
    assert matched(config("x[0]", "*"), "x0") == "x[0]"


def test_the_memory_of_matches_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gt_protocol.sharding.model.MAX_REMEMBERED", 3)
    rules = config("a*", "b")
    assert [matched(rules, name) for name in ["a1", "b", "a2", "c", "a1", "b", "c"]] == [
        "a*",
        "b",
        "a*",
        None,
        "a*",
        "b",
        None,
    ]
    assert len(rules._remembered) <= 3


def test_rules_that_concern_nothing_are_found() -> None:
    names = ["encoder", "encoder_grad", "decoder", "*.bias", "*.weight", "*.longer.weight"]
    rules = config(*names, encoder="encoder_grad")
    assert rules.unmatched(["encoder", "a.longer.weight"]) == ("decoder", "*.bias")
    assert rules.unmatched([]) == tuple(names)
