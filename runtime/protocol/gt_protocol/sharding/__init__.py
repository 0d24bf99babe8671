"""The sharding file: what the signals of a program mean on a cluster.

    version: 1
    meshes:
      grid: {workers: [0, 1, 2, 3], shape: {dp: 2, tp: 2}}
    signals:
      batch:              {mesh: grid, place: {dp: shard(0)}}
      "*.up_proj.weight": {mesh: grid, place: {tp: shard(0)}}
      encoder:            {workers: [0, 1], backward: encoder_grad}
      layer1:             {shard: {axis: 0, workers: [0, 1]}}

`parse_sharding` reads and checks it; every mistake is a `ShardingError` with line, column, signal and what to do.
"""

from gt_protocol.sharding.model import MeshSpec, ShardingConfig, SignalRule, Weights
from gt_protocol.sharding.parse import parse_sharding

__all__ = ["MeshSpec", "ShardingConfig", "SignalRule", "Weights", "parse_sharding"]
