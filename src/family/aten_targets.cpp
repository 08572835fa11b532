#include "family/aten_targets.h"

#include <algorithm>
#include <iterator>

#include "family/aten_table.h"

namespace sluice::detail {
namespace {

constexpr std::string_view kAten = "aten.";

template <std::size_t N>
bool contains(const std::string_view (&names)[N], std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

std::string_view packet_of(std::string_view target) {
  if (target.starts_with(kAten)) target.remove_prefix(kAten.size());
  return target.substr(0, target.find('.'));
}

constexpr std::string_view kOfNumbers[] = {"sym_size",
                                           "sym_numel",
                                           "sym_stride",
                                           "sym_storage_offset",
                                           "_assert_scalar",
                                           "_assert_tensor_metadata",
                                           "_assert_async",
                                           "item",
                                           "_local_scalar_dense",
                                           "is_nonzero",
                                           "_is_all_true",
                                           "sym_constrain_range",
                                           "sym_constrain_range_for_size",
                                           "numel",
                                           "size",
                                           "dim",
                                           "is_floating_point",
                                           "is_same_size",
                                           "equal",
                                           "_functional_assert_async",
                                           "_functional_assert_scalar"};

constexpr std::string_view kByElements[] = {
    "add",         "sub",          "rsub",        "mul",         "div",
    "true_divide", "pow",          "neg",         "abs",         "exp",
    "expm1",       "exp2",         "log",         "log1p",       "log2",
    "log10",       "sin",          "cos",         "tan",         "tanh",
    "sinh",        "cosh",         "asin",        "acos",        "atan",
    "atan2",       "erf",          "sqrt",        "rsqrt",       "square",
    "reciprocal",  "sigmoid",      "silu",        "gelu",        "relu",
    "relu6",       "elu",          "celu",        "selu",        "softplus",
    "leaky_relu",  "hardswish",    "hardsigmoid", "hardtanh",    "mish",
    "threshold",   "log_sigmoid",  "clamp",       "clamp_min",   "clamp_max",
    "clip",        "maximum",      "minimum",     "where",       "masked_fill",
    "addcmul",     "addcdiv",      "lerp",        "dropout",     "to",
    "type_as",     "clone",        "_to_copy",    "zeros_like",  "ones_like",
    "empty_like",  "full_like",    "rand_like",   "randn_like",  "bernoulli",
    "le",          "lt",           "ge",          "gt",          "eq",
    "ne",          "logical_and",  "logical_or",  "logical_not", "bitwise_and",
    "bitwise_or",  "bitwise_not",  "__and__",     "__or__",      "sign",
    "round",       "floor",        "ceil",        "trunc",       "fmod",
    "remainder",   "floor_divide", "isnan",       "logit",       "native_dropout"};

constexpr std::string_view kAutocastProducts[] = {"linear",
                                                  "matmul",
                                                  "mm",
                                                  "bmm",
                                                  "addmm",
                                                  "addmv",
                                                  "mv",
                                                  "baddbmm",
                                                  "addbmm",
                                                  "einsum",
                                                  "conv1d",
                                                  "conv2d",
                                                  "conv3d",
                                                  "convolution",
                                                  "conv_transpose1d",
                                                  "conv_transpose2d",
                                                  "conv_transpose3d",
                                                  "conv_tbc",
                                                  "scaled_dot_product_attention"};

constexpr std::string_view kAutocastFloats[] = {"avg_pool3d",
                                                "binary_cross_entropy",
                                                "grid_sampler",
                                                "mse_loss",
                                                "nll_loss",
                                                "nll_loss2d",
                                                "nll_loss_nd",
                                                "cross_entropy_loss",
                                                "smooth_l1_loss",
                                                "huber_loss",
                                                "kl_div",
                                                "cosine_embedding_loss",
                                                "hinge_embedding_loss",
                                                "prod",
                                                "quantile",
                                                "trace",
                                                "cdist"};

}  // namespace

std::string_view operator_name(std::string_view target) {
  if (!target.starts_with(kAten)) {  // "_operator.mul", "torch.sym_ite"
    const std::size_t dot = target.find('.');
    return dot == std::string_view::npos ? target : target.substr(dot + 1);
  }
  std::string_view name = packet_of(target);
  if (name.ends_with('_') && !name.ends_with("__")) name.remove_suffix(1);
  return name;
}

bool is_in_place(std::string_view target) {
  const AtenRow* row = find_aten_row(target);
  return row && contains_name(row->written, "self") && contains_name(row->shared, "self");
}

bool has_no_tensor_gradient(std::string_view target) {
  if (target.starts_with("_operator.") || target.starts_with("torch.") ||
      target.starts_with("math.") || target.starts_with("builtins."))
    return true;
  return target.starts_with(kAten) && contains(kOfNumbers, packet_of(target));
}

bool keeps_layout(std::string_view name) { return contains(kByElements, name); }
bool is_autocast_product(std::string_view name) { return contains(kAutocastProducts, name); }
bool is_autocast_float(std::string_view name) { return contains(kAutocastFloats, name); }

}  // namespace sluice::detail
