"""Manifests are read as kubectl and the API server read them; what is wrong is named with file, line and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from gt_cli.local.documents import read_documents
from gt_cli.local.manifests import read_manifests
from gt_protocol.errors import ManifestError

CONFIG_MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: rules}
data:
  sharding.yaml: |
    version: 1
"""

CLUSTER = """\
apiVersion: gt.dev/v1alpha1
kind: GTCluster
metadata:
  name: shared
spec:
  workerGroups:
  - name: cpu
    replicas: 2
"""

JOB = """\
apiVersion: gt.dev/v1alpha1
kind: GTJob
metadata:
  name: train
spec:
  clusterRef: {name: shared}
"""

OTHER = "apiVersion: v1\nkind: Namespace\nmetadata: {name: research}\n"


def write(folder: Path, **files: str) -> list[Path]:
    paths = [folder / f"{name}.yaml" for name in files]
    for path, text in zip(paths, files.values(), strict=True):
        path.write_text(text)
    return paths


def test_files_and_folders_with_many_documents_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    write(folder, b=f"---\n{JOB}---\n# nothing\n---\n", a=CLUSTER)
    (folder / "notes.txt").write_text("no manifest: [")
    manifests = read_manifests([*write(tmp_path, maps=f"{CONFIG_MAP}---\n{OTHER}"), folder])
    assert manifests.config_maps["default", "rules"].object == {"sharding.yaml": "version: 1\n"}
    assert list(manifests.clusters) == [("default", "shared")]
    assert list(manifests.jobs) == [("default", "train")]
    assert manifests.others == {"Namespace": ["research"]}
    assert manifests.jobs["default", "train"].document.source("spec.clusterRef.name") == f"{folder / 'b.yaml'}:7"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (CLUSTER.replace("replicas: 2", "replicas: two"), 8, r"spec\.workerGroups\[0\]\.replicas: .*valid integer"),
        (CLUSTER.replace("replicas", "replicsa"), 8, r"spec\.workerGroups\[0\]\.replicsa: there is no such field"),
        (
            CLUSTER.replace("  - name: cpu\n", "  - {}\n  - name: cpu\n"),
            7,
            r"spec\.workerGroups\[0\]\.name: is required",
        ),
        (f"{CLUSTER}---\n{CLUSTER}", 13, r"GTCluster shared is here twice; the first is at .*m\.yaml:1"),
        (JOB.replace("v1alpha1", "v2"), 1, r"apiVersion: must be gt\.dev/v1alpha1"),
        (JOB.replace("GTJob", "GTJbo"), 2, "kind: must be GTCluster or GTJob"),
        (JOB.replace("name: train", "name: Train"), 1, "the name of a GTJob starts with a letter"),
        (OTHER.replace("kind: Namespace\n", ""), 1, "kind: is required"),
        (OTHER.replace("{name: research}", "{}"), 3, r"metadata\.name: is required"),
        (CONFIG_MAP.replace("|\n    version: 1", "1"), 5, r"data\.sharding\.yaml: must be a string"),
        (CONFIG_MAP.replace("metadata:", "data: {}\nmetadata:"), 5, "'data' is here twice"),
        ("a: [", 1, "not valid YAML"),
        ("a: !!python/name:os.system x", 1, "not valid YAML"),
        ("- a", 1, "must be a mapping"),
        ("a: " + "[" * 1000, None, "nested too deep"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, line: int | None, says: str) -> None:
    (path,) = write(tmp_path, m=text)
    with pytest.raises(ManifestError, match=says) as caught:
        read_manifests([path])
    assert str(caught.value).startswith(f"{path}:{line}: " if line else f"{path}: ")


def test_files_that_can_not_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"nothing\.yaml: can't be read: No such file"):
        read_documents([tmp_path / "nothing.yaml"])
    with pytest.raises(ManifestError, match="no manifest in this folder"):
        read_documents([tmp_path])
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ManifestError, match=r"binary\.yaml: is no UTF-8"):
        read_documents([tmp_path])


def test_dates_stay_text_as_in_kubernetes(tmp_path: Path) -> None:
    (document,) = read_documents(write(tmp_path, m="day: 2024-01-31\n"))
    assert document.content == {"day": "2024-01-31"}
