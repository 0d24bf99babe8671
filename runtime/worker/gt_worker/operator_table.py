"""Makes the table of allowed operators from PyTorch's own schemas.

`python -m gt_worker.operator_table` writes `gt_protocol/operators.txt`; a test fails when file and PyTorch differ.

An ATen overload is allowed if all its arguments can be written down in a block, its results are tensors or nothing,
and no rule below denies it. Denials name families by a pattern over the operator's name (without `aten::` and the
overload) and say why.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import torch
from torch._ops import OpOverload

import gt_protocol
from gt_protocol.operators import TABLE_FILE, Operator, format_table

NAMESPACE: Final = "aten::"

#: Types of arguments that a block can express; a generator is always None.
ARGUMENT_TYPES: Final = frozenset(
    f"{prefix}{name}{suffix}"
    for name in ("Tensor", "number", "int", "float", "bool", "str", "ScalarType", "Layout", "MemoryFormat", "Device")
    for prefix, suffix in (
        ("", ""),
        ("Optional[", "]"),
        ("List[", "]"),
        ("Optional[List[", "]]"),
        ("List[Optional[", "]]"),
    )
) | {"Optional[Generator]"}

RESULT_TYPES: Final = frozenset({"Tensor", "List[Tensor]"})

#: Operators whose integer results only repeat what shapes say; these are dropped.
INTEGER_RESULTS: Final = frozenset({"_scaled_dot_product_fused_attention_overrideable"})

#: Pattern over whole names, and the reason why nothing that matches is allowed.
DENIED: Final = (
    (r"from_file", "opens files"),
    (r"_print|_foobar|_test_.*|_debug_.*", "is for tests and debugging"),
    (r"_assert_.*|_functional_(assert|sym)_.*|sym_.*|_make_dep_token", "checks on behalf of a compiler"),
    (r"set|set_|set_data|shallow_copy_data_|_lazy_clone", "swaps storages behind the directory's back"),
    (r"_reshape_alias(_copy)?", "makes views without checking bounds"),
    (r"record_stream|_?pin_memory|_to_cpu|_copy_from.*|_propagate_xla_data|_resize_output_?", "manages memory"),
    (r"_efficientzerotensor", "makes tensors without a storage"),
    (r"data|requires_grad_|retain_grad|_backward|get_gradients|_version|output_nr", "belongs to autograd"),
    (r"_make_dual.*|_unpack_dual|_fw_primal.*|_(add|remove)_batch_dim|_autocast_.*", "belongs to a transform"),
    (r"_has_.*|is_.*|size|stride|numel|dim|item|equal|_local_scalar_dense", "returns a Python value"),
    (r".*quantized.*|.*_quant_.*|(de)?quantize(_.*)?|q_.*|.*_qparams_.*|int_repr", "is for quantized tensors"),
    (r"_make_per_.*|fbgemm_.*|_saturate_weight_.*|.*fake_quant.*|.*moving_avg_obs.*", "is for quantized tensors"),
    (r"_wrapped_.*|.*_int[48]pack.*|_mixed_dtypes_linear", "is for quantized tensors"),
    (r".*sparse.*|_?(coalesce|indices|values)(_copy|d|d_)?|_spdiags|_spsolve|.*smm|_cslt.*", "is for sparse tensors"),
    (r"c(col|row)_indices(_copy)?|(col|row)_indices(_copy)?|hspmm|_convert_indices_.*", "is for sparse tensors"),
    (r"_nested.*|.*_jagged_.*|to_padded_tensor|nested_to_.*|_pad_enum|_rowwise_prune", "is for nested tensors"),
    (r".*(mkldnn|cudnn|miopen|mps|vulkan|xpu|nnpack|triton).*", "belongs to one backend"),
    (r"_cu(da|fft|blas).*", "belongs to one backend"),
    (r"_(flash|efficient)_attention_.*|_fill_mem_eff_.*", "belongs to one backend"),
    (r"convolution(_backward)?_overrideable", "has no kernel on any worker"),
)  # fmt: skip

_DENIED: Final = re.compile("|".join(f"(?:{pattern})" for pattern, _ in DENIED))

#: Arguments that are written to without a mark in the schema, by name.
SILENT_WRITES: Final = {
    "native_batch_norm": ("running_mean", "running_var"),
    "batch_norm": ("running_mean", "running_var"),
    "instance_norm": ("running_mean", "running_var"),
    "batch_norm_gather_stats": ("running_mean", "running_var"),
    "batch_norm_gather_stats_with_counts": ("running_mean", "running_var"),
    "batch_norm_update_stats": ("running_mean", "running_var"),
}

#: Draw random numbers although no tag says so: they drop out with a probability of their own.
SILENT_RANDOM: Final = re.compile(
    r"(alpha_|feature_alpha_|feature_|native_|_fused_)?dropout_?|rrelu(_with_noise)?_?|multinomial|_sobol_engine_scramble_"
    r"|(_scaled_dot_product|scaled_dot_product)(?!.*backward).*|(lstm|gru|rnn_tanh|rnn_relu)"
)


def overloads() -> Iterator[OpOverload]:
    """All ATen overloads that this PyTorch registers, allowed or not."""
    for name in torch._C._dispatch_get_all_op_names():
        if name.startswith(NAMESPACE):
            base, _, overload = name[len(NAMESPACE) :].partition(".")
            yield getattr(getattr(torch.ops.aten, base), overload or "default")


def base_name(operator: OpOverload) -> str:
    """Name without namespace and overload."""
    return operator._schema.name.removeprefix(NAMESPACE)


def is_allowed(operator: OpOverload) -> bool:
    """Whether an instruction may name this overload."""
    schema = operator._schema
    base = base_name(operator)
    if _DENIED.fullmatch(base):
        return False
    if any(str(argument.real_type) not in ARGUMENT_TYPES for argument in schema.arguments):
        return False
    results = {str(result.real_type) for result in schema.returns} - RESULT_TYPES
    return not results or (base in INTEGER_RESULTS and results == {"int"})


def describe(operator: OpOverload) -> Operator:
    """What the dispatcher must know of an overload."""
    schema = operator._schema
    base = base_name(operator)
    silent = SILENT_WRITES.get(base, ())
    writes = tuple(
        position
        for position, argument in enumerate(schema.arguments)
        if (argument.alias_info is not None and argument.alias_info.is_write) or argument.name in silent
    )
    tags = operator.tags
    return Operator(
        index=0,
        name=f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name,
        writes=writes,
        random=(
            torch.Tag.nondeterministic_seeded in tags
            or any(str(argument.real_type) == "Optional[Generator]" for argument in schema.arguments)
            or SILENT_RANDOM.fullmatch(base) is not None
        ),
        view=not writes and any(result.alias_info is not None for result in schema.returns),
        pointwise=torch.Tag.pointwise in tags,
    )


def make_table() -> str:
    """The text of the table for this PyTorch."""
    return format_table(describe(operator) for operator in overloads() if is_allowed(operator))


def main() -> int:
    """Writes the table beside `gt_protocol`'s modules."""
    path = Path(next(iter(gt_protocol.__path__))) / TABLE_FILE
    path.write_text(make_table(), "utf-8")
    sys.stdout.write(f"{path}: {sum(not line.startswith('#') for line in path.read_text().splitlines())} operators\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
