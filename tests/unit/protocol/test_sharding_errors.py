"""Every mistake in a sharding file is named where it was made, with what to do; no text does harm."""

from __future__ import annotations

import time

import pytest
from gt_protocol.errors import ShardingError
from gt_protocol.placements import Shard
from gt_protocol.sharding import parse_sharding
from gt_protocol.sharding.tree import MAX_BYTES, MAX_DEPTH
from hypothesis import given, settings
from hypothesis import strategies as st

MESHES = "meshes:\n  pair: {workers: [0, 1]}\n  grid: {workers: [0, 1, 2, 3], shape: {dp: 2, tp: 2}}\nsignals:\n"

#: Text after MESHES (so its first line is 5), line and column of the error, and words of its message.
MISTAKES = [
    ("  a: {shard: {axes: 0}}", 5, 15, 'signal "a": unknown key "axes" (did you mean "axis"?)'),
    ("  a: {plaice: {0: shard(0)}}", 5, 7, 'did you mean "place"'),
    ("  a: {zzz: 1}", 5, 7, "known keys: mesh, workers"),
    ("  a: {mesh: pear}", 5, 13, 'the mesh "pear" isn\'t defined (did you mean "pair"?)'),
    ("  a: {mesh: x}", 5, 13, "defined are: pair, grid"),
    ("  a: {workers: [0, 4]}", 5, 22, "worker 4 isn't there (the cluster has workers 0 to 3)"),
    ("  a: {workers: [0, -1]}", 5, 22, "a worker must be between 0"),
    ("  a: {workers: [0, 1, 0]}", 5, 25, "worker 0 is here twice"),
    ("  a: {workers: []}", 5, 16, "workers must not be empty"),
    ("  a: {workers: 0}", 5, 16, "workers must be a list"),
    ("  a: {workers: [zero]}", 5, 17, "whole number"),
    ("  a: {mesh: pair, workers: [0]}", 5, 21, "both mesh and workers"),
    ("  a: {mesh: pair, shard: {axis: 0}}", 5, 7, "both shard and mesh"),
    ("  a: {place: {0: shard(0)}}", 5, 7, "place without a mesh"),
    ("  a: {mesh: grid, place: {pp: shard(0)}}", 5, 29, 'no dimension "pp" (did you mean'),
    ("  a: {mesh: grid, place: {2: shard(0)}}", 5, 29, 'no dimension "2" (its dimensions: dp, tp)'),
    ("  a: {mesh: grid, place: {dp: shard(0), 0: replicate}}", 5, 43, "dp is placed twice"),
    ("  a: {mesh: pair, place: {0: shard(x)}}", 5, 32, "is no placement (write shard(n) or replicate)"),
    ("  a: {mesh: pair, place: {0: partial}}", 5, 32, "only ever a result"),
    ("  a: {mesh: pair, place: {0: shard(64)}}", 5, 32, "no tensor has an axis 64"),
    ("  a: {mesh: pair, place: {0: [0]}}", 5, 32, "can't be a list"),
    ("  a: {mesh: pair, place: shard(0)}", 5, 28, "place must be a mapping"),
    ("  a: {mesh: pair, weights: [1, 2]}", 5, 28, "exactly one sharded mesh dimension, and here is none"),
    ("  a: {mesh: grid, place: {dp: shard(0), tp: shard(1)}, weights: auto}", 5, 67, "and here is 2"),
    ("  a: {mesh: pair, place: {0: shard(0)}, weights: [1]}", 5, 50, "1 weights for 2 parts"),
    ("  a: {mesh: pair, place: {0: shard(0)}, weights: [1, 0]}", 5, 54, "above 0"),
    ("  a: {mesh: pair, place: {0: shard(0)}, weights: [1, .inf]}", 5, 54, "above 0"),
    ("  a: {mesh: pair, compile: 1}", 5, 28, "compile must be true or false"),
    ("  a: {mesh: pair, backward: ''}", 5, 29, "backward must be a name"),
    ("  a: {shard: {axis: 1.5}}", 5, 21, "axis must be a whole number"),
    ("  a:", 5, 3, "says nothing"),
    ("  a: {}", 5, 6, "says nothing"),
    ("  a: 5", 5, 6, "a rule must be a mapping"),
    ("  a: {mesh: pair}\n  a: {mesh: grid}", 6, 3, '"a" is here twice (the first is in line 5)'),
    ("  ? [a]\n  : {mesh: pair}", 5, 5, "a key must be a name"),
    ("  a: !!python/object:os.system {mesh: pair}", 5, 6, "tags such as"),
    ("  a: &a {mesh: pair, place: *a}", 5, 29, "stands inside what it repeats"),
    ("  a: *b", 5, 6, "has no anchor"),
    ("  a: &a {mesh: pair}\n  b: {<<: *a}", 6, 7, "merge keys are not supported"),
    ("  a: {mesh: pair", 6, 1, "not valid YAML"),
    ("  a: {mesh: pair}\n---\nb: 1", 7, 1, "a second document"),
    ("  a: {mesh: \x00}", 5, 13, "can't stand in YAML"),
    (f"  {'x' * 600}: {{mesh: pair}}", 5, 3, "longer name than 512 bytes"),
]


@pytest.mark.parametrize(("text", "line", "column", "says"), MISTAKES)
def test_a_mistake_in_a_signal_is_named(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(ShardingError) as caught:
        parse_sharding(MESHES + text, source="sharding.yaml", workers=4)
    assert str(caught.value).startswith(f"sharding.yaml:{line}:{column}: ")
    assert says in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("[]", 1, 1, "a sharding file must be a mapping"),
        ("version: 2", 1, 10, "this release reads version 1"),
        ("version: one", 1, 10, "version must be a whole number"),
        ("version: 1\nsignal: {}", 2, 1, 'did you mean "signals"'),
        ("a: {mesh: pair}", 1, 5, "known keys: shard, backward, compile"),
        ("meshes: {m: {shape: {a: 1}}}", 1, 13, "names no workers"),
        ("meshes: {m: {workers: [0, 1], shape: {a: 3}}}", 1, 38, "is 3 = 3, but it has 2 workers"),
        ("meshes: {m: {workers: [0, 1, 2], shape: {a: 2, b: 2}}}", 1, 41, "is 2 x 2 = 4, but it has 3"),
        ("meshes: {m: {workers: [0], shape: {0: 1}}}", 1, 36, 'can\'t be called "0"'),
        ("meshes: {m: {workers: [0], shape: {}}}", 1, 35, "has 0 dimensions"),
        ("meshes: {m: {workers: [7]}}", 1, 24, "worker 7 isn't there"),
    ],
)
def test_a_mistake_outside_of_signals_is_named(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(ShardingError) as caught:
        parse_sharding(text, workers=4)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert says in str(caught.value)


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
        ("[" * 100_000, f"deeper than {MAX_DEPTH}"),
        ("a: " * 3 + "{b: " * 50_000, ""),
        ("- " * 50_000, f"deeper than {MAX_DEPTH}"),
        ("# " + "x" * MAX_BYTES, "bytes are too many"),
        ("signals: {" + ", ".join(f"s{n}: {{backward: x}}" for n in range(5000)) + "}", "at most 4,096"),
        ("a: [" + "," * 0 + ", ".join(["0"] * 80_000) + "]", ""),
    ],
    ids=["alias bomb", "deep flow", "deep mappings", "deep block", "large", "many signals", "long list"],
)
def test_no_text_takes_long_or_much(text: str, says: str) -> None:
    begun = time.process_time()
    with pytest.raises(ShardingError, match=says):
        parse_sharding(text)
    assert time.process_time() - begun < 5


YAML_LIKE = st.lists(
    st.sampled_from(
        [
            *"{}[]:,&*!|>-?#'\"%@\n ",
            "signals",
            "meshes",
            "version",
            "workers",
            "place",
            "shard(0)",
            "a",
            "0",
            "1",
            "&a",
            "*a",
        ]
        + [
            "  ",
            ": ",
            "\n  ",
            "- ",
            "<<",
            "---\n",
            "...",
            "~",
            "true",
            "mesh",
            "shape",
            "weights",
            "auto",
            "\t",
            "é",
            "\u2028",
        ]
    )
).map("".join)


@given(st.one_of(st.text(), YAML_LIKE, st.binary().map(lambda raw: raw.decode("latin-1"))))
@settings(max_examples=400, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        config = parse_sharding(text, workers=2)
    except ShardingError as error:
        assert str(error)
    else:
        for rule in config.rules:
            assert config.match(rule.name) == rule


@st.composite
def rules(draw: st.DrawFn) -> dict[str, object]:
    """A signal's entry for a file with the meshes of MESHES."""
    entry: dict[str, object] = {}
    axis = st.integers(-64, 63)
    form = draw(st.sampled_from(["mesh", "workers", "shard", "none"]))
    if form == "mesh":
        entry["mesh"] = "grid"
        dims = draw(st.sets(st.sampled_from(["dp", "tp"])))
        entry["place"] = {dim: draw(axis.map("shard({})".format) | st.just("replicate")) for dim in dims}
    elif form == "workers":
        entry["workers"] = draw(st.lists(st.integers(0, 3), min_size=1, unique=True))
    elif form == "shard":
        entry["shard"] = {"axis": draw(axis), "workers": [1, 3], "replicated": draw(st.booleans())}
    if form == "none" or draw(st.booleans()):
        entry["backward"] = draw(st.sampled_from(["grad", "null", "true", "1", "a: b", "é"]))
    if draw(st.booleans()):
        entry["compile"] = draw(st.booleans())
    return entry


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).filter(str.strip), rules(), max_size=5
    )
)
@settings(max_examples=100, deadline=None)
def test_what_is_written_is_what_is_read(signals: dict[str, dict[str, object]]) -> None:
    yaml = pytest.importorskip("yaml")
    document = {
        "version": 1,
        "meshes": {"grid": {"workers": [3, 2, 1, 0], "shape": {"dp": 2, "tp": 2}}},
        "signals": signals,
    }
    config = parse_sharding(yaml.safe_dump(document, sort_keys=False), workers=4)
    assert [rule.name for rule in config.rules] == list(signals)
    for rule, entry in zip(config.rules, signals.values(), strict=True):
        assert rule.backward == entry.get("backward")
        assert rule.compile == entry.get("compile", False)
        if "place" in entry:
            written = {f"{dim}": str(placement) for dim, placement in entry["place"].items()}  # type: ignore[attr-defined]
            assert rule.mesh is not None and rule.placements is not None
            shown = dict(zip(rule.mesh.dim_names, map(_written, rule.placements), strict=True))
            assert shown == {"dp": "replicate", "tp": "replicate", **written}
        elif "workers" in entry:
            assert rule.mesh is not None and list(rule.mesh.workers) == entry["workers"]
        elif "shard" in entry:
            assert rule.mesh is not None and rule.mesh.workers == (1, 3)
        else:
            assert rule.mesh is None


def _written(placement: object) -> str:
    return f"shard({placement.axis})" if isinstance(placement, Shard) else "replicate"
