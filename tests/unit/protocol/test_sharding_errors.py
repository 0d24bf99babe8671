"""Every mistake in a sharding file is named where it was made, with what to do; no text does harm."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from gt_protocol.errors import ShardingError
from gt_protocol.placements import Shard
from gt_protocol.sharding import SignalRule, parse_sharding
from gt_protocol.sharding.tree import MAX_BYTES

MESHES = "meshes:\n  pair: {workers: [0, 1]}\n  grid: {workers: [0, 1, 2, 3], shape: {dp: 2, tp: 2}}\nsignals:\n"

#: Text after MESHES, with a mark where the error is, and words of its message.
MISTAKES = [
    ("  a: {shard: {§axes: 0}}", 'signal "a": unknown key "axes" (did you mean "axis"?)'),
    ("  a: {§plaice: {0: shard(0)}}", 'did you mean "place"'),
    ("  a: {§zzz: 1}", "known keys: mesh, workers"),
    ("  a: {mesh: §pear}", 'the mesh "pear" isn\'t defined (did you mean "pair"?)'),
    ("  a: {mesh: §x}", "defined are: pair, grid"),
    ("  a: {workers: [0, §4]}", "worker 4 isn't there (the cluster has workers 0 to 3)"),
    ("  a: {workers: [0, §-1]}", "a worker must be between 0"),
    ("  a: {workers: [0, 1, §0]}", "worker 0 is here twice"),
    ("  a: {workers: §[]}", "workers must not be empty"),
    ("  a: {workers: §0}", "workers must be a list"),
    ("  a: {workers: [§zero]}", "whole number"),
    ("  a: {mesh: pair, §workers: [0]}", "both mesh and workers"),
    ("  a: {§mesh: pair, shard: {axis: 0}}", "both shard and mesh"),
    ("  a: {§place: {0: shard(0)}}", "place without a mesh"),
    ("  a: {mesh: grid, place: {§pp: shard(0)}}", 'no dimension "pp" (its dimensions: dp, tp)'),
    ("  a: {mesh: grid, place: {§2: shard(0)}}", 'no dimension "2" (its dimensions: dp, tp)'),
    ("  a: {mesh: grid, place: {dp: shard(0), §0: replicate}}", "dp is placed twice"),
    ("  a: {mesh: pair, place: {0: §shard(x)}}", "is no placement (write shard(n) or replicate)"),
    ("  a: {mesh: pair, place: {0: §partial}}", "only ever a result"),
    ("  a: {mesh: pair, place: {0: §shard(64)}}", "no tensor has an axis 64"),
    ("  a: {mesh: pair, place: {0: §[0]}}", "can't be a list"),
    ("  a: {mesh: pair, place: §shard(0)}", "place must be a mapping"),
    ("  a: {mesh: pair, weights: §[1, 2]}", "exactly one sharded mesh dimension, and here is none"),
    ("  a: {mesh: grid, place: {dp: shard(0), tp: shard(1)}, weights: §auto}", "and here is 2"),
    ("  a: {mesh: pair, place: {0: shard(0)}, weights: §[1]}", "1 weights for 2 parts"),
    ("  a: {mesh: pair, place: {0: shard(0)}, weights: [1, §0]}", "above 0"),
    ("  a: {mesh: pair, place: {0: shard(0)}, weights: [1, §.inf]}", "above 0"),
    ("  a: {mesh: pair, compile: §1}", "compile must be true or false"),
    ("  a: {mesh: pair, backward: §''}", "backward must be a name"),
    ("  a: {shard: {axis: §1.5}}", "axis must be a whole number"),
    ("  §a:", "says nothing"),
    ("  a: §{}", "says nothing"),
    ("  a: §5", "a rule must be a mapping"),
    ("  a: {mesh: pair}\n  §a: {mesh: grid}", '"a" is here twice (the first is in line 5)'),
    ("  ? §[a]\n  : {mesh: pair}", "a key must be a name"),
    ("  a: §!!python/object:os.system {mesh: pair}", "tags such as"),
    ("  a: &a {mesh: pair, place: §*a}", "stands inside what it repeats"),
    ("  a: §*b", "has no anchor"),
    ("  a: &a {mesh: pair}\n  b: {§<<: *a}", "merge keys are not supported"),
    ("  a: {mesh: pair\n§", "not valid YAML"),
    ("  a: {mesh: pair}\n---\n§b: 1", "a second document"),
    ("  a: {mesh: §\x00}", "can't stand in YAML"),
    (f"  §{'x' * 600}: {{mesh: pair}}", "longer name than 512 bytes"),
]

#: The same, of texts that stand alone.
OTHER_MISTAKES = [
    ("§[]", "a sharding file must be a mapping"),
    ("version: §2", "this release reads version 1"),
    ("version: §one", "version must be a whole number"),
    ("version: 1\n§signal: {}", 'did you mean "signals"'),
    ("a: {§mesh: pair}", "known keys: shard, backward, compile"),
    ("meshes: {m: §{shape: {a: 1}}}", "names no workers"),
    ("meshes: {m: {workers: [0, 1], shape: §{a: 3}}}", "is 3 = 3, but it has 2 workers"),
    ("meshes: {m: {workers: [0, 1, 2], shape: §{a: 2, b: 2}}}", "is 2 x 2 = 4, but it has 3"),
    ("meshes: {m: {workers: [0], shape: {§0: 1}}}", 'can\'t be called "0"'),
    ("meshes: {m: {workers: [0], shape: §{}}}", "has 0 dimensions"),
    ("meshes: {m: {workers: [§7]}}", "worker 7 isn't there"),
]


@pytest.mark.parametrize(
    ("marked", "says"), [(MESHES + text, says) for text, says in MISTAKES] + OTHER_MISTAKES, ids=lambda text: text[-60:]
)
def test_a_mistake_is_named_where_it_was_made(marked: str, says: str) -> None:
    before, after = marked.split("§")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    with pytest.raises(ShardingError) as caught:
        parse_sharding(before + after, source="sharding.yaml", workers=4)
    assert str(caught.value).startswith(f"sharding.yaml:{line}:{column}: ")
    assert says in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert len(str(caught.value)) < 400


def test_the_signal_of_an_error_is_told() -> None:
    with pytest.raises(ShardingError) as caught:
        parse_sharding("layer1: {shard: {axes: 0}}", source="sharding.yaml")
    assert (caught.value.signal, caught.value.hint) == ("layer1", 'did you mean "axis"?')


def bomb() -> str:
    lines = ["signals:", "  a0: &a0 {backward: x}"]
    lines += [f"  a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (bomb(), "aliases written out"),
        ("[" * 100_000, "nest"),
        ("{b: " * 50_000, "nest"),
        ("- " * 50_000, "nest"),
        ("# " + "x" * MAX_BYTES, "bytes are too many"),
        ("signals: {" + ", ".join(f"s{n}: {{backward: x}}" for n in range(5000)) + "}", "at most 4,096"),
        ("a: [" + "0, " * 80_000 + "]", "a rule must be a mapping"),
    ],
    ids=["alias bomb", "deep flow", "deep mappings", "deep block", "large", "many signals", "long list"],
)
def test_no_text_takes_long_or_much(text: str, says: str) -> None:
    begun = time.process_time()
    with pytest.raises(ShardingError, match=says):
        parse_sharding(text)
    assert time.process_time() - begun < 5


WORDS = [
    "signals",
    "meshes",
    "version",
    "workers",
    "mesh",
    "shape",
    "place",
    "weights",
    "shard(0)",
    "auto",
    "true",
    "~",
]
WORDS += ["a", "0", "1", "&a", "*a", "<<", "..."]
PUNCTUATION = [*"{}[]:,&*!|>-?#'\"%@\n\t é\u2028", "  ", ": ", "\n  ", "- ", "---\n"]
YAML_LIKE = st.lists(st.sampled_from(WORDS + PUNCTUATION)).map("".join)


@given(st.one_of(st.text(), YAML_LIKE, st.binary().map(lambda raw: raw.decode("latin-1"))))
@settings(max_examples=400, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        config = parse_sharding(text, workers=2)
    except ShardingError:
        return
    for rule in config.rules:
        assert config.match(rule.name) == rule


@st.composite
def rules(draw: st.DrawFn) -> dict[str, Any]:
    """A signal's entry, with nothing in it that could be left out."""
    entry: dict[str, Any] = {}
    placement = st.integers(-64, 63).map("shard({})".format) | st.just("replicate")
    form = draw(st.sampled_from(["mesh", "workers", "none"]))
    if form == "mesh":
        entry = {"mesh": "grid", "place": {"dp": draw(placement), "tp": draw(placement)}}
    elif form == "workers":
        entry = {"workers": draw(st.lists(st.integers(0, 3), min_size=1, unique=True))}
        if draw(st.booleans()):
            entry["place"] = {"0": draw(placement)}
    if form == "none" or draw(st.booleans()):
        entry["backward"] = draw(st.sampled_from(["grad", "null", "true", "1", "a: b", "é"]))
    return entry | ({"compile": True} if draw(st.booleans()) else {})


NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip)


@given(st.dictionaries(NAMES, rules(), max_size=5))
@settings(max_examples=100, deadline=None)
def test_what_is_written_is_what_is_read(signals: dict[str, dict[str, Any]]) -> None:
    grid = {"workers": [3, 2, 1, 0], "shape": {"dp": 2, "tp": 2}}
    document = {"version": 1, "meshes": {"grid": grid}, "signals": signals}
    config = parse_sharding(yaml.safe_dump(document, sort_keys=False), workers=4)
    assert {rule.name: written(rule) for rule in config.rules} == signals
    assert [rule.name for rule in config.rules] == list(signals)


def written(rule: SignalRule) -> dict[str, Any]:
    """The entry of `rules` that a rule was read from."""
    entry: dict[str, Any] = {}
    placements = [
        f"shard({placement.axis})" if isinstance(placement, Shard) else "replicate"
        for placement in rule.placements or ()
    ]
    if rule.mesh is not None and rule.mesh.shape == (2, 2):
        assert rule.mesh.workers == (3, 2, 1, 0)
        entry = {"mesh": "grid", "place": dict(zip(rule.mesh.dim_names, placements, strict=True))}
    elif rule.mesh is not None:
        entry = {"workers": list(rule.mesh.workers)}
        if rule.placements is not None:
            entry["place"] = {"0": placements[0]}
    if rule.backward is not None:
        entry["backward"] = rule.backward
    return entry | ({"compile": True} if rule.compile else {})
