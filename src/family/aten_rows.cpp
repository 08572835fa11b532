// The tensors that LibTorch's CPU operators save for their backward, as measured by
// tests/family/measure_aten.py.
#include <array>
#include <iterator>

#include "family/aten_row.h"
#include "family/aten_targets.h"

namespace sluice::detail {
namespace aten_rows {

void all_operands(Row& row) {
  for (const auto& [argument, tensors] : row.call().tensors)
    for (const CallTensor& each : tensors) row.keep(each);
}

namespace {

void nothing(Row&) {}
void operand(Row& row) {
  if (row.first()) row.keep(*row.first());
}
void the_result(Row& row) { row.keep(row.result()); }
void operand_and_result(Row& row) {
  operand(row);
  the_result(row);
}
void second_result(Row& row) {
  if (row.call().results.size() > 1) row.keep(row.result(1));
}

void layer_norm(Row& row) {
  const CallTensor *x = row.tensor("input"), *weight = row.tensor("weight");
  row.reads_first({"input", "weight"});
  const std::int64_t width = product_of(row.call().integers("normalized_shape"));
  const double statistic = element(weight && x->dtype != weight->dtype ? *weight : *x);
  row.keep(*x);
  row.keep_own("statistics",
               2 * statistic * as_double(x->numel() / std::max<std::int64_t>(1, width)));
}

void rms_norm(Row& row) {
  const CallTensor *x = row.tensor("input"), *weight = row.tensor("weight");
  row.reads_first({"input", "weight"});
  const std::int64_t width = product_of(row.call().integers("normalized_shape"));
  if (x->dtype == "float32")
    row.keep(*x, row.wants(*x));
  else
    row.keep_own("float32 of x", kFloat * as_double(x->numel()), row.wants(*x));
  row.keep_own("statistics", kFloat * as_double(x->numel() / std::max<std::int64_t>(1, width)),
               row.wants(*x));
  if (weight) row.keep_own("normalized", kFloat * as_double(x->numel()), row.wants(*weight));
}

void group_norm(Row& row) {
  const CallTensor *x = row.tensor("input"), *weight = row.tensor("weight");
  row.reads_first({"input", "weight"});
  row.keep(*x);
  const double statistic = element(weight && x->dtype != weight->dtype ? *weight : *x);
  row.keep_own("statistics", 2 * statistic * as_double(x->sizes.empty() ? 1 : x->sizes[0]) *
                                 as_double(row.call().integer("num_groups", 1)));
}

void batch_norm(Row& row) {
  const CallTensor* x = row.tensor("input");
  row.reads_first({"input", "weight"});
  row.keep(*x);
  for (const char* statistic : {"running_mean", "running_var"})
    if (const CallTensor* buffer = row.tensor(statistic)) row.keep(*buffer);
  const double channels = as_double(x->sizes.size() > 1 ? x->sizes[1] : 1);
  if (row.call().flag("training", false)) row.keep_own("statistics", 2 * kFloat * channels);
}

// LibTorch runs instance_norm as a batch_norm over rows * channels, with repeated weights.
void instance_norm(Row& row) {
  const CallTensor* x = row.tensor("input");
  row.reads_first({"input", "weight"});
  row.keep(*x);
  const double groups = as_double(x->sizes.size() > 1 ? x->sizes[0] * x->sizes[1] : 1);
  row.keep_own("statistics", 3 * kFloat * groups);
}

void mul(Row& row) {
  const CallTensor *a = row.tensor("self"), *b = row.tensor("other");
  if (!b) return;
  row.keep(*a, row.wants(*b));
  row.keep(*b, row.wants(*a));
}

void div(Row& row) {
  const CallTensor *a = row.tensor("self"), *b = row.tensor("other");
  if (!b) return;
  row.keep(*a, row.wants(*b));
  row.keep(*b);
}

void pow(Row& row) {
  const CallTensor *base = row.tensor("self"), *exponent = row.tensor("exponent");
  if (base && !exponent && row.call().real("exponent", 1) == 0) return;
  for (const CallTensor* each : {base, exponent})
    if (each) row.keep(*each);
  if (exponent) row.keep(row.result());
  row.add_backward_temporary_bytes(element(row.result()) * as_double(row.result().numel()));
}

void addcmul(Row& row) {
  const CallTensor *a = row.tensor("tensor1"), *b = row.tensor("tensor2");
  row.reads_first({"tensor1", "tensor2"});
  row.keep(*a, row.wants(*b));
  row.keep(*b, row.wants(*a));
}

void lerp(Row& row) {
  if (row.tensor("weight")) all_operands(row);
}

void dropout(Row& row) {
  const double p = row.call().real("p", 0.5);
  const CallTensor* x = row.first();
  if (p == 0 || !row.call().flag("train", true)) return;
  const std::string_view name = operator_name(row.call().target);
  if (name == "native_dropout") return second_result(row);
  std::int64_t count = x->numel();
  if (name == "feature_dropout" && x->sizes.size() > 1) count = x->sizes[0] * x->sizes[1];
  row.keep_own("mask", element(*x) * as_double(count));
}

void log_sigmoid(Row& row) {
  row.keep(*row.first());
  row.keep_own("exponentials", element(*row.first()) * as_double(row.first()->numel()));
}

void instead(Row& row) { row.keep(*row.tensor("condition")); }  // where
void masked(Row& row) { row.keep(*row.tensor("mask")); }        // masked_fill
void of_max(Row& row) {                                         // for max and min
  if (row.call().results.size() > 1) {
    row.keep(row.result(1));
  } else if (row.tensor("other")) {
    all_operands(row);
  } else {
    operand_and_result(row);
  }
}

void indexed(Row& row) {
  for (const auto& [argument, tensors] : row.call().tensors)
    if (argument == "indices" || argument == "index")
      for (const CallTensor& each : tensors) row.keep(each);
}
void embedding(Row& row) {
  indexed(row);
  const CallTensor& table = *row.tensor("weight");
  // The gradient, and its float32 copy for accumulation, are as large as the table.
  const double copies = table.dtype == "float32" ? element(table) : element(table) + kFloat;
  if (!table.weight.empty()) row.at_end("d " + table.name, copies * as_double(table.numel()));
}
void gather(Row& row) {
  row.keep(*row.tensor("self"));
  row.keep(*row.tensor("index"));
}
void take_along(Row& row) {
  row.keep(*row.tensor("self"));
  row.keep_own("indices", kInt64 * as_double(row.result().numel()));
}
void scatter_add(Row& row) {
  row.reads_first({"src"});
  row.keep(*row.tensor("index"), row.wants(*row.tensor("src")));
}
void index_add(Row& row) {
  const CallTensor* source = row.tensor("source");
  row.reads_first({"source"});
  row.keep(*row.tensor("index"), row.wants(*source));
  row.keep(*source, row.wants(*source));
}
void pad(Row& row) {
  const std::string mode = row.call().text("mode");
  if (!mode.empty() && mode != "constant") row.keep(*row.first());
}

void cross_entropy(Row& row) {
  const CallTensor *logits = row.tensor("self"), *target = row.tensor("target");
  const bool floats = row.is_casted(*logits) || logits->dtype == "float32" ||
                      (row.result().dtype == "float32" && logits->dtype != "float64");
  const double each = floats ? kFloat : element(*logits);
  row.keep_own("log-probabilities", each * as_double(logits->numel()));
  if (!target->is_floating()) row.keep_own("total weight", each);
  row.keep(*target);
  row.add_backward_temporary_bytes(each * as_double(logits->numel()));
}
void nll(Row& row) {
  row.keep(*row.tensor("self"));
  row.keep(*row.tensor("target"));
  row.keep_own("total weight", element(*row.tensor("self")));
}
void l1(Row& row) { row.keep_own("signs", row.first()->bytes()); }
void kl(Row& row) { row.keep(*row.tensor("target")); }

void max_pool(Row& row) {
  row.keep(*row.first());
  row.keep_own("indices", kInt64 * as_double(row.result().numel()));
}
void adaptive_pool(Row& row) {
  const Sizes size = row.call().integers("output_size");
  const bool is_mean = std::all_of(size.begin(), size.end(), [](auto each) { return each == 1; });
  if (!is_mean || size.empty()) row.keep(*row.first());
}

// Applies only to calls that have all arguments in `needs`.
struct Rule {
  std::string_view name;
  void (*write)(Row&);
  std::array<std::string_view, 3> needs = {};
};

constexpr Rule kRules[] = {
    {"linear", linear, {"input", "weight"}},
    {"mm", mm, {"self", "mat2"}},
    {"bmm", mm, {"self", "mat2"}},
    {"mv", mv, {"self", "vec"}},
    {"dot", dot, {"self", "tensor"}},
    {"addmm", addmm, {"mat1", "mat2"}},
    {"baddbmm", baddbmm, {"batch1", "batch2"}},
    {"matmul", matmul, {"self", "other"}},
    {"einsum", einsum, {"tensors"}},
    {"conv1d", convolution, {"input", "weight"}},
    {"conv2d", convolution, {"input", "weight"}},
    {"conv3d", convolution, {"input", "weight"}},
    {"convolution", convolution, {"input", "weight"}},
    {"conv_transpose1d", convolution, {"input", "weight"}},
    {"conv_transpose2d", convolution, {"input", "weight"}},
    {"conv_transpose3d", convolution, {"input", "weight"}},
    {"transformers.grouped_mm_fallback", grouped, {"input", "weight"}},
    {"scaled_dot_product_attention", attention, {"query", "key", "value"}},
    {"layer_norm", layer_norm, {"input"}},
    {"rms_norm", rms_norm, {"input"}},
    {"group_norm", group_norm, {"input"}},
    {"batch_norm", batch_norm, {"input"}},
    {"instance_norm", instance_norm, {"input"}},
    {"silu", operand},
    {"gelu", operand},
    {"sin", operand},
    {"cos", operand},
    {"abs", operand},
    {"softplus", operand},
    {"elu", operand},
    {"celu", operand},
    {"selu", operand},
    {"leaky_relu", operand},
    {"hardswish", operand},
    {"hardsigmoid", operand},
    {"hardtanh", operand},
    {"relu6", operand},
    {"mish", operand},
    {"erf", operand},
    {"square", operand},
    {"log", operand},
    {"log1p", operand},
    {"log2", operand},
    {"glu", operand},
    {"clamp", operand},
    {"clamp_min", operand},
    {"clamp_max", operand},
    {"clip", operand},
    {"relu", the_result},
    {"sigmoid", the_result},
    {"tanh", the_result},
    {"exp", the_result},
    {"expm1", the_result},
    {"exp2", the_result},
    {"sqrt", the_result},
    {"rsqrt", the_result},
    {"reciprocal", the_result},
    {"log_sigmoid", log_sigmoid},
    {"prelu", operand},
    {"pow", pow},
    {"dropout", dropout},
    {"feature_dropout", dropout},
    {"native_dropout", dropout},
    {"neg", nothing},
    {"add", nothing},
    {"sub", nothing},
    {"rsub", nothing},
    {"mul", mul, {"self"}},
    {"div", div, {"self"}},
    {"true_divide", div, {"self"}},
    {"maximum", all_operands},
    {"minimum", all_operands},
    {"addcmul", addcmul, {"tensor1", "tensor2"}},
    {"lerp", lerp},
    {"where", instead, {"condition"}},
    {"masked_fill", masked, {"mask"}},
    {"sum", nothing},
    {"mean", nothing},
    {"cumsum", nothing},
    {"var", operand},
    {"std", operand_and_result},
    {"var_mean", operand},
    {"amax", operand_and_result},
    {"amin", operand_and_result},
    {"max", of_max},
    {"min", of_max},
    {"logsumexp", operand_and_result},
    {"linalg_vector_norm", operand_and_result},
    {"norm", operand_and_result},
    {"prod", operand_and_result},
    {"cumprod", operand_and_result},
    {"softmax", the_result},
    {"_softmax", the_result},
    {"log_softmax", the_result},
    {"_log_softmax", the_result},
    {"topk", second_result},
    {"sort", second_result},
    {"diff", nothing},
    {"embedding", embedding, {"weight"}},
    {"index", indexed},
    {"index_select", indexed},
    {"gather", gather, {"self", "index"}},
    {"take_along_dim", take_along, {"self"}},
    {"scatter", indexed},
    {"scatter_add", scatter_add, {"src", "index"}},
    {"index_put", indexed},
    {"index_add", index_add, {"source", "index"}},
    {"masked_scatter", masked, {"mask"}},
    {"cat", nothing},
    {"stack", nothing},
    {"repeat", nothing},
    {"repeat_interleave", nothing},
    {"pad", pad},
    {"constant_pad_nd", nothing},
    {"roll", nothing},
    {"flip", nothing},
    {"tril", nothing},
    {"triu", nothing},
    {"copy", nothing},
    {"fill", nothing},
    {"zero", nothing},
    {"slice_scatter", nothing},
    {"select_scatter", nothing},
    {"cross_entropy_loss", cross_entropy, {"self", "target"}},
    {"nll_loss_nd", nll, {"self", "target"}},
    {"nll_loss", nll, {"self", "target"}},
    {"mse_loss", all_operands},
    {"l1_loss", l1},
    {"smooth_l1_loss", all_operands},
    {"huber_loss", all_operands},
    {"binary_cross_entropy_with_logits", all_operands},
    {"kl_div", kl, {"target"}},
    {"avg_pool1d", operand},
    {"avg_pool2d", operand},
    {"avg_pool3d", operand},
    {"max_pool1d", max_pool},
    {"max_pool2d", max_pool},
    {"max_pool3d", max_pool},
    {"adaptive_avg_pool1d", adaptive_pool},
    {"adaptive_avg_pool2d", adaptive_pool},
    {"upsample_nearest1d", nothing},
    {"upsample_nearest2d", nothing},
    {"upsample_bilinear2d", nothing},
    {"pixel_shuffle", nothing},
    {"pixel_unshuffle", nothing},
    {"view", nothing},
    {"view_as", nothing},
    {"_unsafe_view", nothing},
    {"reshape", nothing},
    {"reshape_as", nothing},
    {"flatten", nothing},
    {"unflatten", nothing},
    {"alias", nothing},
    {"detach", nothing},
    {"lift_fresh", nothing},
    {"lift_fresh_copy", nothing},
    {"transpose", nothing},
    {"swapaxes", nothing},
    {"swapdims", nothing},
    {"t", nothing},
    {"numpy_T", nothing},
    {"mT", nothing},
    {"permute", nothing},
    {"movedim", nothing},
    {"moveaxis", nothing},
    {"unsqueeze", nothing},
    {"squeeze", nothing},
    {"select", nothing},
    {"unbind", nothing},
    {"slice", nothing},
    {"narrow", nothing},
    {"split", nothing},
    {"split_with_sizes", nothing},
    {"chunk", nothing},
    {"tensor_split", nothing},
    {"expand", nothing},
    {"expand_as", nothing},
    {"broadcast_to", nothing},
    {"unfold", nothing},
    {"as_strided", nothing},
    {"diagonal", nothing},
    {"broadcast_tensors", nothing},
    {"meshgrid", nothing},
    {"to", nothing},
    {"_to_copy", nothing},
    {"type_as", nothing},
    {"float", nothing},
    {"contiguous", nothing},
    {"clone", nothing},
    {"le", nothing},
    {"lt", nothing},
    {"ge", nothing},
    {"gt", nothing},
    {"eq", nothing},
    {"ne", nothing},
    {"logical_and", nothing},
    {"logical_or", nothing},
    {"logical_not", nothing},
    {"logical_xor", nothing},
    {"bitwise_and", nothing},
    {"bitwise_or", nothing},
    {"bitwise_not", nothing},
    {"bitwise_xor", nothing},
    {"__and__", nothing},
    {"__or__", nothing},
    {"__xor__", nothing},
    {"isnan", nothing},
    {"isinf", nothing},
    {"isin", nothing},
    {"argmax", nothing},
    {"argmin", nothing},
    {"argsort", nothing},
    {"any", nothing},
    {"all", nothing},
    {"nonzero", nothing},
    {"bincount", nothing},
    {"histc", nothing},
    {"bucketize", nothing},
    {"searchsorted", nothing},
    {"one_hot", nothing},
    {"multinomial", nothing},
    {"bernoulli", nothing},
    {"sign", nothing},
    {"round", nothing},
    {"floor", nothing},
    {"ceil", nothing},
    {"trunc", nothing},
    {"fmod", nothing},
    {"remainder", nothing},
    {"floor_divide", nothing},
    {"arange", nothing},
    {"zeros", nothing},
    {"ones", nothing},
    {"full", nothing},
    {"empty", nothing},
    {"new_zeros", nothing},
    {"new_ones", nothing},
    {"new_full", nothing},
    {"new_empty", nothing},
    {"zeros_like", nothing},
    {"ones_like", nothing},
    {"full_like", nothing},
    {"empty_like", nothing},
    {"rand", nothing},
    {"randn", nothing},
    {"randint", nothing},
    {"rand_like", nothing},
    {"randn_like", nothing},
    {"randperm", nothing},
    {"scalar_tensor", nothing},
    {"eye", nothing},
    {"linspace", nothing},
    {"tril_indices", nothing},
    {"triu_indices", nothing},
};

const Rule* rule_of(std::string_view target) {
  std::string_view name = operator_name(target);
  if (!target.starts_with("aten.")) {  // a custom operator, by its whole name
    name = target.substr(0, target.rfind('.'));
    if (name.find('.') == std::string_view::npos) return nullptr;
  }
  const auto* const found = std::find_if(std::begin(kRules), std::end(kRules),
                                         [&](const Rule& rule) { return rule.name == name; });
  return found == std::end(kRules) ? nullptr : found;
}

}  // namespace
}  // namespace aten_rows

bool has_row(std::string_view target) {
  return has_no_tensor_gradient(target) || aten_rows::rule_of(target) != nullptr;
}

OperatorRow row_of(const OperatorCall& call, const Precision& precision) {
  check_sizes(call);
  aten_rows::Row row(call, precision);
  if (has_no_tensor_gradient(call.target)) return std::move(row).finish();
  const aten_rows::Rule* const rule = aten_rows::rule_of(call.target);
  const bool fits =
      rule && row.is_complete() && (rule->write == aten_rows::nothing || row.first()) &&
      std::all_of(rule->needs.begin(), rule->needs.end(),
                  [&](auto argument) { return argument.empty() || row.tensor(argument); });
  if (fits) {
    rule->write(row);
  } else {
    aten_rows::all_operands(row);
    row.unknown();
  }
  return std::move(row).finish();
}

}  // namespace sluice::detail
