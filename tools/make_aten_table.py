#!/usr/bin/env python3
"""Writes src/family/aten_table.cpp: the operators of ATen that an exported graph may run, from LibTorch's schemas.

    python tools/make_aten_table.py > src/family/aten_table.cpp

The Python that runs this program needs the torch that sluice is built with. A row says which arguments an operator
writes, which arguments its results may share storage with, and whether the operator may draw random numbers. The facts
come from the schemas: alias annotations, tags, and generators among the arguments. What the schemas do not say is
listed below. tests/graph compares the table with the schemas of the LibTorch that the tests run on.

An operator has a row if it computes tensors from tensors and numbers, and checks its arguments. It also has one if
sluice checks them (src/graph/call_checks.cpp: as_strided, attention, recurrent layers). All other operators are left
out: files, storages, unchecked strides, other libraries' internals, sparse, nested and quantized tensors, and backward
functions, which do not check their saved tensors.
"""
import fnmatch
import sys

import torch

# Names with a leading underscore are internal to LibTorch. These are the ones that torch.export writes, or
# that Python functions call, and that check their arguments.
PRIVATE = """
_adaptive_avg_pool2d _adaptive_avg_pool3d _addmm_activation _aminmax _assert_async _assert_scalar
_assert_tensor_metadata _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short
_conj _conj_physical _convolution _convolution_mode _dim_arange _euclidean_dist _foreach_* _fused_rms_norm
_is_all_true _is_any_true _linalg_check_errors _linalg_det _linalg_eigh _linalg_eigvals _linalg_slogdet
_linalg_solve_ex _linalg_svd _local_scalar_dense _log_softmax _logcumsumexp _neg_view _pad_circular _pad_enum
_prelu_kernel _reshape_copy _safe_softmax _scaled_dot_product_attention_math _shape_as_tensor _softmax _standard_gamma
_to_copy _trilinear _unique _unique2 _unsafe_view _upsample_* _weight_norm
""".split()

# Public names without a row, and the reason.
LEFT_OUT = {
    "touches files, devices' memory or a storage": "from_file record_stream is_pinned pin_memory set set_ set_data data"
    " copy_sparse_to_sparse copy_sparse_to_sparse_",
    "changes or shows a size or stride without a check that its elements are the tensor's own":
    "resize resize_ resize_as resize_as_ resize_as_sparse resize_as_sparse_ as_strided_ as_strided_copy"
    " as_strided_scatter empty_strided new_empty_strided empty_permuted is_set_to storage_offset stride"
    " sym_storage_offset",
    "is autograd's own": "requires_grad_ retain_grad retains_grad is_leaf output_nr *_backward *_backward_* *_jvp"
    " get_gradients",
    "is another library's": "cudnn_* miopen_* mkldnn_* mps_* fbgemm_* is_vulkan_available convolution_overrideable"
    " thnn_conv2d slow_conv* conv_depthwise3d batch_norm_elemt batch_norm_stats batch_norm_gather_stats*"
    " batch_norm_update_stats",
    "is of sparse, nested or quantized tensors": "sparse_* to_sparse* to_mkldnn to_dense to_padded_tensor nested_*"
    " coalesce is_coalesced dense_dim values values_copy indices indices_copy *row_indices* *col_indices* smm sspaddmm"
    " hspmm int_repr dequantize q_* qscheme quantize_* quantized_* fake_quantize_* choose_qparams_optimized"
    " empty_quantized fused_moving_avg_obs_fake_quant",
    "is for LibTorch's tests and internals": "linalg__powsum hash_tensor is_distributed is_inference can_cast"
    " promote_types result_type get_device",
    "fails to check its arguments, which ends the process or reads beyond a tensor":
    "native_batch_norm segment_reduce range fractional_max_pool2d fractional_max_pool3d",
    "runs without end for some arguments": "binomial matrix_power linalg_matrix_power special_*_polynomial_*",
}

# Private names and overloads without a row, because they do not check their arguments.
LEFT_OUT_OVERLOADS = {"_foreach_copy.default", "_foreach_copy.out", "lstm.data", "gru.data", "rnn_tanh.data",
                      "rnn_relu.data"}

# Arguments that an operator writes although its schema does not say so.
WRITTEN = {
    "batch_norm": ("running_mean", "running_var"),
    "instance_norm": ("running_mean", "running_var"),
}

# Operators that may return their first argument or a view of it, although their schemas do not say so. The argument may
# be a list.
SHARING = """
_cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short _conj_physical
_pad_enum alpha_dropout atleast_1d atleast_2d atleast_3d broadcast_tensors cartesian_prod chain_matmul conj_physical
dropout einsum feature_alpha_dropout feature_dropout flatten_dense_tensors lift linalg_multi_dot meshgrid pad
sum_to_size type_as unflatten_dense_tensors unsafe_chunk unsafe_split unsafe_split_with_sizes _unsafe_view
""".split()

# Operators that draw random numbers in training but lack the tag.
RANDOM = """
alpha_dropout alpha_dropout_ dropout dropout_ feature_alpha_dropout feature_alpha_dropout_ feature_dropout
feature_dropout_ gru lstm native_dropout rnn_relu rnn_tanh scaled_dot_product_attention
""".split()

TYPES = {"Tensor", "int", "bool", "List[int]", "List[Tensor]", "number", "Optional[Tensor]", "Optional[int]", "float",
         "Optional[float]", "Optional[bool]", "Optional[List[int]]", "Optional[Device]", "Optional[Generator]", "str",
         "Optional[str]", "Optional[number]", "List[number]", "List[bool]", "Optional[List[float]]",
         "List[Optional[Tensor]]", "Device", "List[float]"}


def matches(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def has_row(name, overload, schema):
    if any(str(argument.type) not in TYPES for argument in schema.arguments):
        return False
    if f"{name}.{overload or 'default'}" in LEFT_OUT_OVERLOADS:
        return False
    if name.startswith("_") and not name.startswith("__"):
        return matches(name, PRIVATE) and not matches(name, ("*_backward", "*_backward_*"))
    return not any(matches(name, names.split()) for names in LEFT_OUT.values())


def schemas():
    """Returns {(name, overload): schema} of all ATen operators in LibTorch's dispatcher."""
    found = {}
    for full in torch._C._dispatch_get_all_op_names():
        if full.startswith("aten::"):
            name, _, overload = full.removeprefix("aten::").partition(".")
            found[name, overload] = torch._C._get_schema(f"aten::{name}", overload)
    return found


def allowed():
    return {key: schema for key, schema in schemas().items() if has_row(*key, schema)}


def row_of(name, overload, schema):
    """Returns (target, written arguments, shared arguments, whether it may draw)."""
    written, shared = [], []
    returned = set().union(*[out.alias_info.before_set | out.alias_info.after_set
                             for out in schema.returns if out.alias_info is not None])
    for argument in schema.arguments:
        alias = argument.alias_info
        if alias is None:
            continue
        if alias.is_write:
            written.append(argument.name)
        if not alias.is_write or returned & (alias.before_set | alias.after_set):
            shared.append(argument.name)
    written += [argument.name for argument in schema.arguments if argument.name in WRITTEN.get(name, ())]
    if name in SHARING and not written and not shared:
        shared.append(next(argument.name for argument in schema.arguments if "Tensor" in str(argument.type)))
    operator = getattr(getattr(torch.ops.aten, name), overload or "default")
    draws = (torch.Tag.nondeterministic_seeded in operator.tags or name in RANDOM
             or any(str(argument.type) == "Optional[Generator]" for argument in schema.arguments))
    return f"{name}.{overload or 'default'}", written, shared, draws


def main():
    rows = sorted(row_of(name, overload, schema) for (name, overload), schema in allowed().items())
    quoted = lambda names: '"' + " ".join(names) + '"'
    lines = [f'    {{"{target}", {quoted(written)}, {quoted(shared)}, {str(draws).lower()}}},'
             for target, written, shared, draws in rows]
    text = "\n".join([
        f"// Written by tools/make_aten_table.py from the schemas of torch {torch.__version__.split('+')[0]}; do not edit.",
        '#include "family/aten_table.h"',
        "",
        "namespace sluice::detail {",
        "",
        "// clang-format off",
        "const AtenRow kAtenRows[] = {",
        *lines,
        "};",
        "// clang-format on",
        f"const std::size_t kNumAtenRows = {len(rows)};",
        "",
        "}  // namespace sluice::detail",
        ""])
    sys.stdout.write(text)


if __name__ == "__main__":
    main()
