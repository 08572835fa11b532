// Costs of matrix products, convolutions and attention.
#include <tuple>

#include "family/aten_row.h"
#include "family/aten_targets.h"

namespace sluice::detail {
namespace aten_rows {

// [.., K] times [N, K], plus an optional bias.
void linear(Row& row) {
  const CallTensor *x = row.tensor("input"), *weight = row.tensor("weight");
  row.reads_first({"input", "weight"});
  const std::int64_t inner = last_of(*x);
  const Sizes matrix = {inner == 0 ? 0 : x->numel() / inner, inner};
  row.keep_operand(*x, x->sizes.size() < 2 ? x->sizes : matrix, row.wants(*weight));
  row.keep_operand(*weight, weight->sizes, row.wants(*x));
  const std::int64_t columns = weight->sizes.size() > 1 ? weight->sizes[0] : 1;
  row.product(*x, *weight, 2 * as_double(x->numel()) * as_double(columns));
}

void plain_product(Row& row, const char* left, const char* right) {
  const CallTensor *a = row.tensor(left), *b = row.tensor(right);
  row.reads_first({left, right});
  row.keep_operand(*a, a->sizes, row.wants(*b));
  row.keep_operand(*b, b->sizes, row.wants(*a));
  row.product(*a, *b, 2 * as_double(a->numel()) * as_double(b->sizes.size() > 1 ? last_of(*b) : 1));
}
void mm(Row& row) { plain_product(row, "self", "mat2"); }
void mv(Row& row) { plain_product(row, "self", "vec"); }
void dot(Row& row) { plain_product(row, "self", "tensor"); }
void addmm(Row& row) { plain_product(row, "mat1", "mat2"); }
void baddbmm(Row& row) { plain_product(row, "batch1", "batch2"); }

CallTensor expanded(const CallTensor& tensor, const Sizes& batch) {
  CallTensor result = tensor;
  const Sizes strides = tensor.strides.empty() ? contiguous_strides(tensor.sizes) : tensor.strides;
  const std::size_t count = tensor.sizes.size(), own = count - 2;
  result.sizes = batch;
  result.strides.assign(batch.size(), 0);
  for (std::size_t i = 0; i < own; ++i) {
    const std::size_t to = batch.size() - own + i;
    if (tensor.sizes[i] == batch[to]) result.strides[to] = strides[i];
  }
  for (std::size_t i = own; i < count; ++i) {
    result.sizes.push_back(tensor.sizes[i]);
    result.strides.push_back(strides[i]);
  }
  if (result.storage_bytes < 0) result.storage_bytes = static_cast<std::int64_t>(tensor.bytes());
  return result;
}

void matmul(Row& row) {
  const CallTensor *a = row.tensor("self"), *b = row.tensor("other");
  row.reads_first({"self", "other"});
  const std::size_t of_a = a->sizes.size(), of_b = b->sizes.size();
  const double operations =
      2 * as_double(row.result().numel()) * as_double(of_a == 0 ? 1 : last_of(*a));
  if (of_a <= 2 && of_b <= 2) {
    row.keep(*a, row.wants(*b));
    row.keep(*b, row.wants(*a));
  } else if (of_b <= 2) {  // all but the last dimension of a are rows
    row.keep_operand(*a, {a->numel() / std::max<std::int64_t>(1, last_of(*a)), last_of(*a)},
                     row.wants(*b));
    row.keep_operand(*b, b->sizes, row.wants(*a));
  } else if (of_a <= 2) {  // transposed: leading dimensions of b are rows
    CallTensor turned = *b;
    turned.strides = b->strides.empty() ? contiguous_strides(b->sizes) : b->strides;
    std::swap(turned.sizes[of_b - 1], turned.sizes[of_b - 2]);
    std::swap(turned.strides[of_b - 1], turned.strides[of_b - 2]);
    row.keep_operand(*a, a->sizes, row.wants(*b));
    row.keep_operand(turned,
                     {turned.numel() / std::max<std::int64_t>(1, last_of(turned)), last_of(turned)},
                     row.wants(*a));
  } else if (row.result().sizes.size() >= std::max(of_a, of_b)) {
    const Sizes& all = row.result().sizes;
    const Sizes batch(all.begin(), all.end() - 2);
    for (const auto& [operand, other] : {std::pair{a, b}, std::pair{b, a}}) {
      const Sizes& sizes = operand->sizes;
      row.keep_operand(expanded(*operand, batch),
                       {product_of(batch), sizes[sizes.size() - 2], sizes.back()},
                       row.wants(*other));
    }
  }
  row.product(*a, *b, operations);
}

struct Lettered {
  const CallTensor* tensor = nullptr;
  std::string letters;

  std::size_t at(char letter) const { return letters.find(letter); }
  bool has(char letter) const {
    return at(letter) != std::string::npos && tensor->sizes[at(letter)] != 1;
  }
  // Whether the tensor can be viewed with one axis per group of letters. Sets the axes' sizes.
  bool is_viewable_as(const std::vector<std::string>& groups, Sizes& sizes) const {
    const Sizes own = tensor->strides.empty() ? contiguous_strides(tensor->sizes) : tensor->strides;
    CallTensor ordered = *tensor;
    ordered.sizes.clear();
    ordered.strides.clear();
    for (const std::string& group : groups) {
      sizes.push_back(1);
      for (const char letter : group) {
        ordered.sizes.push_back(tensor->sizes[at(letter)]);
        ordered.strides.push_back(own[at(letter)]);
        sizes.back() = saturating_multiply(sizes.back(), ordered.sizes.back());
      }
    }
    return is_viewable(ordered, sizes);
  }
};

// An einsum of two tensors as a matrix product: letters in both, in one, or summed.
struct Pairing {
  Lettered a, b;
  std::string both, of_a, of_b, inner;
  bool sums = false;     // false: elementwise product
  bool is_known = true;  // false: no single matrix product
  double operations = 2;
};

Pairing pairing_of(const OperatorCall& call) {
  std::string equation = call.text("equation");
  std::erase(equation, ' ');
  const std::size_t comma = equation.find(','), arrow = equation.find("->");
  Pairing pair;
  pair.a = {call.tensor("tensors", 0), equation.substr(0, comma)};
  pair.b = {call.tensor("tensors", 1), ""};
  if (comma != std::string::npos && arrow != std::string::npos && arrow > comma)
    pair.b.letters = equation.substr(comma + 1, arrow - comma - 1);
  const auto is_plain = [](const Lettered& of) {
    return of.tensor && of.letters.size() == of.tensor->sizes.size() &&
           std::all_of(of.letters.begin(), of.letters.end(), [&](char letter) {
             return letter != '.' && of.letters.find(letter) == of.letters.rfind(letter);
           });
  };
  pair.is_known = is_plain(pair.a) && is_plain(pair.b) && !call.tensor("tensors", 2);
  if (!pair.is_known) return pair;
  const std::string result = equation.substr(arrow + 2);
  std::string letters = pair.a.letters + pair.b.letters;
  std::sort(letters.begin(), letters.end());
  letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
  // The left operand is the one whose unshared letters come first in the result.
  for (const char letter : result) {
    if (pair.a.has(letter) == pair.b.has(letter)) continue;
    if (pair.b.has(letter)) std::swap(pair.a, pair.b);
    break;
  }
  for (const char letter : result) {
    const bool in_a = pair.a.has(letter), in_b = pair.b.has(letter);
    if (in_a && in_b)
      pair.both += letter;
    else if (in_a)
      pair.of_a += letter;
    else if (in_b)
      pair.of_b += letter;
  }
  for (const char letter : letters) {
    const bool in_a = pair.a.has(letter), in_b = pair.b.has(letter);
    const Lettered& of = in_a ? pair.a : pair.b;
    if (in_a || in_b) pair.operations *= as_double(of.tensor->sizes[of.at(letter)]);
    if (result.find(letter) != std::string::npos) continue;
    pair.sums = true;
    if (in_a && in_b) pair.inner += letter;
    // einsum first sums a letter that only one operand has, which creates a tensor.
    if (in_a != in_b) pair.is_known = false;
  }
  return pair;
}

// Copies operands that cannot be viewed as matrices. Unsupported equations save all operands.
void einsum(Row& row) {
  const Pairing pair = pairing_of(row.call());
  if (!pair.is_known) return all_operands(row);
  if (!pair.sums) {
    row.keep(*pair.a.tensor, row.wants(*pair.b.tensor));
    row.keep(*pair.b.tensor, row.wants(*pair.a.tensor));
    return;
  }
  Sizes sizes_a, sizes_b;
  const bool lies_a = pair.a.is_viewable_as({pair.both, pair.of_a, pair.inner}, sizes_a),
             lies_b = pair.b.is_viewable_as({pair.both, pair.inner, pair.of_b}, sizes_b);
  for (const auto& [operand, other, lies, sizes] :
       {std::tuple{&pair.a, &pair.b, lies_a, &sizes_a},
        std::tuple{&pair.b, &pair.a, lies_b, &sizes_b}}) {
    const CallTensor& tensor = *operand->tensor;
    if (lies && !row.is_casted(tensor))
      row.keep(tensor, row.wants(*other->tensor));
    else
      row.keep_own("matrices of " + tensor.name,
                   row.product_bytes(tensor) * as_double(product_of(*sizes)),
                   row.wants(*other->tensor));
  }
  row.product(*pair.a.tensor, *pair.b.tensor, pair.operations);
}

// Larger float32 convolutions use oneDNN (single thread).
constexpr std::int64_t kLargePicture = 20480;

void convolution(Row& row) {
  const CallTensor *x = row.tensor("input"), *weight = row.tensor("weight");
  row.reads_first({"weight"});
  if (row.is_casted(*x))
    row.keep_own("cast of " + x->name, row.product_bytes(*x) * as_double(x->numel()));
  else
    row.keep(*x);
  row.keep(*weight);
  // The kernel reorders input and weight. With large inputs it also copies the gradient.
  const double turned = element(*x) * as_double(x->numel());
  row.takes(weight->bytes() + turned);
  if (x->numel() > kLargePicture)
    row.add_backward_temporary_bytes(element(row.result()) * as_double(row.result().numel()) +
                                     (row.wants(*x) ? turned : 0));
  else
    row.add_backward_temporary_bytes(weight->bytes() + turned);
  const std::string_view name = operator_name(row.call().target);
  const bool transposed =
      name.starts_with("conv_transpose") || row.call().flag("transposed", false);
  const std::int64_t spread = transposed ? x->numel() : row.result().numel();
  const std::int64_t first = weight->sizes.empty() ? 1 : weight->sizes[0];
  row.product(*x, *weight,
              2 * as_double(spread) * as_double(weight->numel()) /
                  as_double(std::max<std::int64_t>(1, first)));
}

// Multiplies each row of the sorted input by the matrix of its expert.
void grouped(Row& row) {
  const CallTensor *x = row.tensor("input"), *weight = row.tensor("weight");
  row.reads_first({"input", "weight"});
  row.keep(*x);
  row.keep(*weight);
  row.product(*x, *weight, 2 * as_double(x->numel()) * as_double(last_of(*weight)));
}

void attention(Row& row) {
  const CallTensor *q = row.tensor("query"), *k = row.tensor("key"), *v = row.tensor("value"),
                   *mask = row.tensor("attn_mask");
  const auto rows_of = [](const CallTensor& t) {
    return t.numel() / std::max<std::int64_t>(1, last_of(t));
  };
  const std::int64_t rows = rows_of(*q),
                     keys = k->sizes.size() < 2 ? 1 : k->sizes[k->sizes.size() - 2];
  const double pairs = as_double(rows) * as_double(keys);
  const double scores = 2 * pairs * as_double(last_of(*q)),
               sums = 2 * pairs * as_double(last_of(*v));
  const bool of_scores = row.wants(*q) || row.wants(*k);
  if (is_blockwise_attention(row.call())) {
    for (const CallTensor* each : {q, k, v}) {
      if (row.is_casted(*each))
        row.keep_own("cast of " + each->name, row.product_bytes(*each) * as_double(each->numel()));
      else
        row.keep(*each);
    }
    if (mask && (mask->dtype == "bool" || row.is_casted(*mask)))
      row.keep_own("mask", row.product_bytes(*q) * as_double(mask->numel()));
    else if (mask)
      row.keep(*mask);
    row.keep(row.result());
    row.keep_own("log-sums", kFloat * as_double(rows));
    row.forward(scores + sums);
    row.gradient_of(*q, scores);
    row.gradient_of(*k, scores);
    row.gradient_of(*v, sums);
    if (of_scores) row.gradient_of(row.wants(*q) ? *q : *k, sums);
    return;
  }
  const double drops = row.call().real("dropout_p", 0) > 0;
  row.reads_only({"query", "key", "attn_mask"});
  // Scales inputs, and repeats keys and values for every query head.
  const double wide_pairs = kFloat * pairs;
  const std::int64_t queries = q->sizes.size() < 2 ? 1 : q->sizes[q->sizes.size() - 2];
  const double heads_rows = as_double(rows / std::max<std::int64_t>(1, queries)) * as_double(keys);
  row.keep_own("scaled queries", kFloat * as_double(q->numel()), row.wants(*k));
  row.keep_own("scaled keys", kFloat * heads_rows * as_double(last_of(*k)), row.wants(*q));
  row.keep_own("probabilities", wide_pairs, Needed::kFlows);
  if (drops) row.keep_own("mask of dropout", wide_pairs, Needed::kFlows);
  row.forward(scores);
  row.gradient_of(*q, scores);
  row.gradient_of(*k, scores);
  row.then_reads("probabilities of " + row.result().name, {"value"});
  const double values = kFloat * heads_rows * as_double(last_of(*v));
  Sizes matrices = {1, keys, last_of(*v)};
  if (v->sizes.size() > 1)
    matrices[0] = v->numel() / std::max<std::int64_t>(1, saturating_multiply(keys, last_of(*v)));
  if (v->dtype == "float32" && !row.is_casted(*v) && as_double(rows_of(*v)) == heads_rows &&
      is_viewable(*v, matrices))
    row.keep(*v, Needed::kFirstFlows);
  else
    row.keep_own("values", values, Needed::kFirstFlows);
  row.keep_own(drops ? "dropped" : "probabilities", wide_pairs, row.wants(*v));
  row.forward(sums);
  row.gradient_of(*v, sums);
  if (of_scores) row.gradient_of(row.wants(*q) ? *q : *k, sums);
  // The softmax needs scores, result, a copy without fully masked rows, and booleans. Scaled inputs
  // exist then, but not the final result.
  const double masked = mask && mask->dtype == "bool" ? kFloat * as_double(mask->numel()) : 0;
  row.set_temporary_bytes(std::max(0.0, kFloat * as_double(q->numel()) + 3 * wide_pairs + pairs +
                                            masked - row.result().bytes()));
  row.add_backward_temporary_bytes(2 * wide_pairs);
}

}  // namespace aten_rows

bool is_blockwise_attention(const OperatorCall& call) {
  const CallTensor* const mask = call.tensor("attn_mask");
  if (call.real("dropout_p", 0) > 0) return false;
  if (mask && ((mask->is_floating() && !mask->is_free) ||
               (mask->sizes.size() != 2 && mask->sizes.size() != 4)))
    return false;
  for (const char* argument : {"query", "key", "value"}) {
    const CallTensor* const each = call.tensor(argument);
    if (!each || each->sizes.size() != 4 || each->numel() == 0) return false;
    if (!each->strides.empty() && each->strides.back() != 1 && each->sizes.back() != 1)
      return false;
  }
  return call.tensor("query")->sizes.back() == call.tensor("value")->sizes.back();
}

std::vector<std::int64_t> einsum_strides(const OperatorCall& call) {
  const aten_rows::Pairing pair = aten_rows::pairing_of(call);
  const CallTensor& result = call.results.front();
  std::string equation = call.text("equation");
  std::erase(equation, ' ');
  const std::string letters = equation.substr(std::min(equation.size(), equation.find("->") + 2));
  std::vector<std::int64_t> strides = contiguous_strides(result.sizes);
  if (!pair.is_known || !pair.sums || letters.size() != result.sizes.size()) return strides;
  const std::string order = pair.both + pair.of_a + pair.of_b;
  std::int64_t stride = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::size_t axis = letters.find(order[i]);
    strides[axis] = stride;
    stride = saturating_multiply(stride, std::max<std::int64_t>(1, result.sizes[axis]));
  }
  return strides;
}

}  // namespace sluice::detail
