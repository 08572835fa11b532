// Symbols: D hidden size, F inner size, Q and K widths of all query and key heads, H query heads, E
// experts.
#include "family/operators.h"

#include <algorithm>
#include <utility>

namespace sluice::detail {
namespace {

constexpr double kInt64 = 8, kFloat = 4;

double as_double(std::int64_t count) { return static_cast<double>(count); }
// Bytes of float32 values: norms, loss, log-sums, fused operators.
double wide(std::int64_t count) { return kFloat * as_double(count); }

ShapePolynomial per_token(double count) { return {.per_token = count}; }
ShapePolynomial per_pair(double count) { return {.per_pair = count}; }
ShapePolynomial once(double count) { return {.constant = count}; }

// Bytes that each tensor-parallel rank stores whole, or that are divided by columns or by rows.
struct SharedBytes {
  SharedBytes() = default;
  SharedBytes(const ShapePolynomial& all) : whole(all) {}  // NOLINT(google-explicit-constructor)
  ShapePolynomial whole, columns, rows;
};
SharedBytes columns(const ShapePolynomial& bytes) {
  SharedBytes of;
  of.columns = bytes;
  return of;
}
SharedBytes rows(const ShapePolynomial& bytes) {
  SharedBytes of;
  of.rows = bytes;
  return of;
}
SharedBytes operator+(SharedBytes a, const SharedBytes& b) {
  a.whole = ShapePolynomial::sum(a.whole, b.whole);
  a.columns = ShapePolynomial::sum(a.columns, b.columns);
  a.rows = ShapePolynomial::sum(a.rows, b.rows);
  return a;
}

using Field = ShapePolynomial LayerCost::*;
constexpr Field kKept = &LayerCost::after_forward, kKeptForWeights = &LayerCost::after_input,
                kOnEntry = &LayerCost::on_entry, kInWeight = &LayerCost::in_weight,
                kAtEnd = &LayerCost::at_end, kInForward = &LayerCost::in_forward;

void need(Operator& of, Field field, Needed when, std::string name, const SharedBytes& bytes) {
  of.bytes.push_back({.field = field,
                      .needed = when,
                      .name = std::move(name),
                      .bytes = bytes.whole,
                      .columns = bytes.columns,
                      .rows = bytes.rows});
}

// Results of norms and sums have the parameters' dtype. Other values have the matrix products'
// dtype.
bool is_stored(const std::string& value) {
  return value == "x" || value == "h" || value.starts_with("normed ");
}

std::string parameter_of(const std::string& module, const std::string& name) {
  return module.empty() ? name : module + "." + name;
}

// Entries of one name are not summed: the largest counts.
constexpr const char* kMoment = "moment";

}  // namespace

OperatorList::OperatorList(const Precision& precision)
    : precision_(precision),
      stored_(as_double(precision.parameter_bytes())),
      product_(as_double(precision.product_bytes())) {}

void OperatorList::matrix(const std::string& name, std::int64_t rows, std::int64_t columns,
                          bool bias, bool transposed) {
  parameters_.push_back({parameter_of(name, "weight"), {rows, columns}, {}});
  if (bias) parameters_.push_back({parameter_of(name, "bias"), {transposed ? columns : rows}, {}});
}

void OperatorList::divide_outputs(const std::string& name, std::int64_t units,
                                  std::vector<std::int64_t> sections, bool transposed) {
  ParameterSplit split{.dim = transposed ? 1 : 0, .sections = std::move(sections), .units = units};
  divided_outputs_.insert(name);
  for (ParameterSpec& parameter : parameters_) {
    if (parameter.name == parameter_of(name, "weight")) parameter.split = split;
    if (parameter.name != parameter_of(name, "bias")) continue;
    parameter.split = split;
    parameter.split->dim = 0;
  }
}

void OperatorList::divide_inputs(const std::string& name, std::int64_t units, bool transposed) {
  divided_inputs_.insert(name);
  for (ParameterSpec& parameter : parameters_) {
    if (parameter.name == parameter_of(name, "weight"))
      parameter.split = {.dim = transposed ? 0 : 1, .sections = {}, .units = units};
  }
}

void OperatorList::vector(const std::string& name, std::int64_t size, bool bias) {
  parameters_.push_back({parameter_of(name, "weight"), {size}, {}});
  if (bias) parameters_.push_back({parameter_of(name, "bias"), {size}, {}});
}

// Bytes of a weight's gradient before accumulation. Fused operators accumulate in place.
double OperatorList::weight_gradient(double count) const {
  if (fuses()) return 0.0;
  return (precision_.casts() ? product_ + stored_ : stored_) * count;
}

double OperatorList::gradient_and_copy(double count) const {
  return weight_gradient(count) + (fuses() || stored_ == kFloat ? 0.0 : kFloat * count);
}

std::vector<std::string> OperatorList::weights_of(const std::vector<std::string>& modules) const {
  std::vector<std::string> weights;
  for (const std::string& module : modules) {
    for (const ParameterSpec& parameter : parameters_)
      for (const char* name : {"weight", "bias"})
        if (parameter.name == parameter_of(module, name)) weights.push_back(parameter.name);
  }
  return weights;
}

Operator& OperatorList::add(std::vector<std::string> reads, std::string writes,
                            std::vector<std::string> weights) {
  return operators_.all.emplace_back(Operator{
      .reads = std::move(reads), .writes = std::move(writes), .weights = std::move(weights)});
}

// The input is saved once for all readers, unless each casts it. The result's gradient is kept from
// the input gradient to the weight gradient.
Operator& OperatorList::linear(const std::string& name, const std::string& from,
                               const std::string& to, std::int64_t in, std::int64_t out) {
  Operator& of = add({from}, to, weights_of({name}));
  const double weights = as_double(in) * as_double(out);
  of.forward_flops = of.input_flops = of.weight_flops = per_token(2 * weights);
  of.casted_weights = casted_weights(weights);
  const std::string operand = precision_.casts() && is_stored(from) ? from + " of " + name : from;
  of.plain = Operator::Plain::kMatrix;
  const ShapePolynomial read = per_token(product(in)), written = per_token(product(out));
  const SharedBytes kept = divided_inputs_.contains(name) ? columns(read) : read;
  need(of, kKept, Needed::kWeight, operand, kept);
  need(of, kKeptForWeights, Needed::kWeight, operand, kept);
  need(of, kKeptForWeights, Needed::kTrains, "d " + to,
       divided_outputs_.contains(name) ? columns(written) : written);
  return of;
}

void OperatorList::norm(NormKind kind, const std::string& name, std::int64_t width,
                        std::int64_t groups, const std::string& from, const std::string& to,
                        bool of_products) {
  Operator& of = add({from}, to, weights_of({name}));
  const double narrow = of_products ? product(width) : stored(width);
  const std::string floats = narrow == wide(width) ? from : from + " in float32";
  const std::string normalized = to + " before its weight";
  // Norms of heads are divided by columns, others by rows.
  const auto part = [&](double count) {
    return of_products ? columns(per_token(count)) : rows(per_token(count));
  };
  need(of, kKeptForWeights, Needed::kTrains, "d " + to, part(narrow));
  if (fuses()) {  // weight gradients come with input gradients
    const std::int64_t sums = (kind == NormKind::kLayer ? 2 : 1) * width / groups;
    need(of, kKept, Needed::kBackward, from, part(narrow));
    need(of, kKept, Needed::kBackward, to + " statistics", part(wide(ops::kNormFloats * groups)));
    need(of, kKeptForWeights, Needed::kTrains, to + " sums", once(wide(sums)));
    return;
  }
  of.plain = Operator::Plain::kNorm;
  need(of, kKeptForWeights, Needed::kTrains, kind == NormKind::kLayer ? from : normalized,
       part(narrow));
  if (kind == NormKind::kLayer) {  // the backward recomputes the normalized x
    const double statistics = of_products ? wide(2 * groups) : stored(2 * groups);
    need(of, kKept, Needed::kBackward, from, part(narrow));
    for (const Field field : {kKept, kKeptForWeights})
      need(of, field, field == kKept ? Needed::kBackward : Needed::kTrains, to + " statistics",
           part(statistics));
    return;
  }
  need(of, kKept, Needed::kFlows, floats, part(wide(width)));
  need(of, kKept, Needed::kFlows, to + " statistics", part(wide(groups)));
  need(of, kKept, Needed::kWeight, normalized, part(kind == NormKind::kRms ? narrow : wide(width)));
  if (kind == NormKind::kRmsPlusOne)  // saves 1 + weight
    need(of, kKept, Needed::kFlows, to + " weight", once(wide(width / groups)));
}

void OperatorList::residual(const std::string& from, double dropout, std::int64_t width,
                            const std::string& x, const std::string& to) {
  Operator& of = add({from, x}, to);
  if (dropout > 0)
    need(of, kKept, Needed::kFirstFlows, from + " mask", rows(per_token(product(width))));
}

void OperatorList::embedding(std::int64_t num_rows, std::int64_t width, double dropout, bool scaled,
                             std::int64_t num_positions) {
  Operator& of = add({}, "y", {"weight", "*.wpe.weight"});
  need(of, kKept, Needed::kTrains, "ids", per_token(kInt64));
  if (dropout > 0) need(of, kKept, Needed::kTrains, "mask", rows(per_token(stored(width))));
  need(of, kKeptForWeights, Needed::kTrains, "ids", per_token(kInt64));
  need(of, kKeptForWeights, Needed::kTrains, "d y", per_token(stored(width)));
  // The table's gradient and its float32 copy are as large as the table. Fused operators accumulate
  // in place.
  const double bytes = stored_ + (stored_ == kFloat ? 0.0 : kFloat);
  if (!fuses())
    need(of, kAtEnd, Needed::kTrains, "d table",
         columns(once(bytes * as_double(num_rows * width))));
  if (num_positions > 0)
    need(of, kAtEnd, Needed::kTrains, "d positions",
         once(bytes * as_double(num_positions * width)));
  // Copies of rows: looked up, scaled or with positions added, dropout's mask and result.
  const int copies = 1 + (scaled || num_positions > 0) + (dropout > 0 ? 2 : 0);
  need(of, kInForward, Needed::kAlways, kMoment, per_token(stored(copies * width)));
}

// The fused kernel saves q, k, v, the result and one log-sum per head. Other kernels save values
// per pair of tokens.
void OperatorList::scaled_dot_products(const AttentionSizes& a) {
  const std::int64_t h = a.heads, q = a.query_width, k = a.key_width;
  const bool drops = a.dropout > 0, turned = a.rotary_dim > 0;
  if (a.capped) {
    Operator& scores = add({"turned q", "turned k"}, "scores");
    need(scores, kKept, Needed::kSecondFlows, "turned q", columns(per_token(product(q))));
    need(scores, kKept, Needed::kFirstFlows, "turned k", columns(per_token(product(q))));
    need(scores, kKept, Needed::kFlows, "tangents", columns(per_pair(product(h))));
    need(scores, kKept, Needed::kFlows, "probabilities", columns(per_pair(wide(h))));
  }
  Operator& of =
      a.capped ? add({"scores", "v"}, "attended") : add({"turned q", "turned k", "v"}, "attended");
  of.of_heads = true;
  of.forward_flops = per_pair(as_double(4 * q));
  of.input_flops = per_pair(as_double(8 * q));
  if (a.capped) {
    const std::string casted = product_ < kFloat ? "casted probabilities" : "probabilities";
    need(of, kKept, Needed::kFirstFlows, "v", columns(per_token(product(q))));
    need(of, kKept, Needed::kSecondFlows, casted, columns(per_pair(product(h))));
    if (drops) need(of, kKept, Needed::kBackward, "dropped", columns(per_pair(product(2 * h))));
    need(of, kInForward, Needed::kAlways, kMoment, columns(per_pair(product(h) + wide(h))));
    // The backward needs two more values per pair, but only once the feed-forward's values are
    // free. They are about as large for usual sequences, so a quarter is counted.
    need(of, kOnEntry, Needed::kBackward, kMoment, columns(per_pair(product(h) / 2)));
  } else {
    need(of, kKept, Needed::kBackward, "turned q", columns(per_token(product(q))));
    need(of, kKept, Needed::kBackward, "turned k", columns(per_token(product(drops ? q : k))));
    need(of, kKept, Needed::kBackward, "v", columns(per_token(product(drops ? q : k))));
    if (drops) {  // repeated keys and values, probabilities before and after dropout, mask
      need(of, kKept, Needed::kBackward, "scores", columns(per_pair(product(3 * h))));
    } else {
      need(of, kKept, Needed::kBackward, "attended", columns(per_token(product(q))));
      need(of, kKept, Needed::kBackward, "log-sums", columns(per_token(wide(h))));
    }
  }
  // If v is a view of the joint projection, the whole projection is saved.
  if (a.projections.size() == 1 && turned && !a.copies_values)
    need(of, kKept, Needed::kBackward, "q k v", columns(per_token(product(q + k))));
  const int queries = 4 + a.norms_heads - !turned;
  need(of, kInForward, Needed::kAlways, kMoment,
       per_token(stored(2 * a.hidden)) +
           columns({.per_token = product(queries * q + (a.copies_values ? 4 : 3) * k),
                    .per_pair = drops ? product(3 * h) : 0.0}));
}

void OperatorList::plain_attention(const AttentionSizes& a) {
  const std::int64_t d = a.hidden, q = a.query_width, k = a.key_width;
  const bool turned = a.rotary_dim > 0;
  if (!a.capped)
    entry_of_plain_attention_ = {.per_token = product(2 * (q + k)),
                                 .per_pair = a.dropout > 0 ? product(a.heads) : 0.0};
  std::string normed = "x";
  if (!a.norm_before.empty()) norm(a.norm, a.norm_before, d, 1, "x", normed = "normed x");
  if (a.projections.size() == 1) {
    linear(a.projections[0], normed, "q k v", d, q + 2 * k);
    for (const char* part : {"q", "k", "v"}) add({"q k v"}, part);
  } else {
    const std::int64_t widths[] = {q, k, k};
    const char* const parts[] = {"q", "k", "v"};
    for (int i = 0; i < 3; ++i) linear(a.projections[i], normed, parts[i], d, widths[i]);
  }
  const auto prepare = [&](const std::string& part, const std::string& head_norm,
                           std::int64_t width, std::int64_t heads) {
    const std::string to = head_norm.empty() ? part : "normed " + part;
    if (!head_norm.empty()) norm(a.norm, head_norm, width, heads, part, to, true);
    Operator& of = add({to}, "turned " + part);
    // Cast sines and cosines count per row.
    if (turned && !a.wide_rotary)
      need(of, kKept, Needed::kFlows, "angles", per_token(casted_table(2 * a.rotary_dim)));
  };
  prepare("q", a.query_norm, q, a.norms_heads ? a.heads : 1);
  prepare("k", a.key_norm, k, a.norms_heads ? k / a.head_dim : 1);
  scaled_dot_products(a);
  const bool copies = turned || a.dropout > 0 || a.capped;
  if (copies) add({"attended"}, "attended rows");
  linear(a.output, copies ? "attended rows" : "attended", "attention", q, d);
  std::string result = "attention";
  if (!a.norm_behind.empty()) norm(a.norm, a.norm_behind, d, 1, result, "normed attention");
  if (!a.norm_behind.empty()) result = "normed attention";
  residual(result, a.residual_dropout, d, "x", "h");
}

void OperatorList::fused_half(Operator& of, const FusedHalf& half) {
  using enum Needed;
  const double d = wide(half.hidden);
  // Values that a norm saves for its weight gradient cover all rows.
  double until_input = 0, until_weight = 0, after_input = 0, sums = 0;
  const std::string& x = of.reads.front();
  need(of, kKept, kBackward, x, rows(per_token(d)));
  need(of, kOnEntry, kBackward, "d " + half.name, rows(per_token(d)));
  need(of, kKeptForWeights, kTrains, "d " + (x == "x" ? "attention" : half.name), per_token(d));
  if (half.norm_before) {
    until_weight += d;
    until_input += wide(ops::kNormFloats);
    sums += d;
  } else {
    need(of, kKeptForWeights, kTrains, x, per_token(d));
  }
  if (half.norm_behind) {
    until_input += d + wide(ops::kNormFloats);
    after_input += d;
    sums += d;
  }
  // Fused halves of equal width reuse each other's memory.
  const auto running = [&](std::int64_t width, const SharedBytes& bytes) {
    need(of, &LayerCost::pooled_in_backward, kBackward, "floats " + std::to_string(width), bytes);
  };
  if (half.norm_before) running(half.hidden, per_token(d));
  running(half.width, columns(per_token(wide(half.width))));
  const SharedBytes for_input = rows(per_token(until_input)) + columns(per_token(half.until_input));
  const SharedBytes for_weight = per_token(until_weight) + columns(per_token(half.until_weight));
  const SharedBytes later =
      once(sums) + rows(per_token(after_input)) + columns(per_token(half.after_input));
  need(of, &LayerCost::pooled_until_input, kTrains, half.name, for_input);
  need(of, &LayerCost::pooled_until_weight, kTrains, half.name, for_weight);
  need(of, &LayerCost::pooled_after_input, kTrains, half.name, later);
  // If weights are frozen, everything is freed after the input gradient.
  need(of, &LayerCost::pooled_until_input, kFrozen, half.name, for_input + for_weight);
  need(of, &LayerCost::pooled_in_backward, kFrozen, half.name, later);
  need(of, &LayerCost::pooled_in_forward, kForwardOnly, half.name, for_input + for_weight);
  const int values = of.reads.size() > 1 && x == "x" ? 4 : 3;  // inputs, halves and their sum
  need(of, kInForward, kAlways, kMoment, rows(per_token(values * d)));
}

void OperatorList::fused_attention(const AttentionSizes& a) {
  std::vector<std::string> modules = a.projections;
  for (const std::string& module :
       {a.output, a.query_norm, a.key_norm, a.norm_before, a.norm_behind})
    modules.push_back(module);
  Operator& of = add({"x"}, "h", weights_of(modules));
  const std::int64_t q = a.query_width, k = a.key_width, width = q + 2 * k;
  const double weights = as_double(2 * a.hidden) * as_double(q + k);
  of.forward_flops = {.per_token = 2 * weights, .per_pair = as_double(4 * q)};
  of.input_flops = {.per_token = 2 * weights, .per_pair = as_double(8 * q)};
  of.weight_flops = per_token(2 * weights);
  std::int64_t head_norms = 0;
  if (!a.query_norm.empty()) head_norms = q + k + (a.norms_heads ? a.heads + k / a.head_dim : 2);
  fused_half(of, {.name = "attention",
                  .hidden = a.hidden,
                  .width = q,
                  .norm_before = !a.norm_before.empty(),
                  .norm_behind = !a.norm_behind.empty(),
                  .until_input = wide(width + a.heads + head_norms),
                  .until_weight = wide(q),
                  .after_input = wide(width)});
  const ShapePolynomial scratch{
      .constant = wide(2 * ops::kQueryBlock * (ops::kScoreSlack + a.head_dim) + ops::kScoreSlack),
      .per_length = wide(ops::kKeyMatrices * a.head_dim + 2 * ops::kQueryBlock)};
  need(of, &LayerCost::pooled_in_backward, Needed::kBackward, "scratch", scratch);
  need(of, &LayerCost::pooled_in_forward, Needed::kAlways, "scratch", scratch);
}

void OperatorList::attention(const AttentionSizes& sizes) {
  sizes.fused&& fuses() ? fused_attention(sizes) : plain_attention(sizes);
}

void OperatorList::plain_feed_forward(const FeedForwardSizes& s) {
  const std::int64_t d = s.hidden, f = s.inner;
  std::string x = s.reads;
  if (!s.norm_before.empty()) norm(s.norm, s.norm_before, d, 1, s.reads, x = "normed h");
  const bool one_matrix = s.gated && s.projections.size() == 1;
  if (one_matrix) {
    linear(s.projections[0], x, "gate and up", d, 2 * f);
    for (const char* part : {"gate", "up"}) add({"gate and up"}, part);
  } else {
    linear(s.projections[0], x, "gate", d, f);
    if (s.gated) linear(s.projections[1], x, "up", d, f);
  }
  // ReLU's gradient needs only its result, others need the input.
  Operator& activation = add({"gate"}, "activated");
  const bool keeps_result = s.activation == Activation::kRelu;
  need(activation, kKept, Needed::kFlows, keeps_result ? "activated" : "gate",
       columns(per_token(product(f))));
  if (s.gated) {
    Operator& times = add({"activated", "up"}, "inner");
    need(times, kKept, Needed::kFirstFlows, "up", columns(per_token(product(f))));
    need(times, kKept, Needed::kSecondFlows, "activated", columns(per_token(product(f))));
    if (one_matrix) need(times, kKept, Needed::kFirstFlows, "gate", columns(per_token(product(f))));
  }
  const std::int64_t moment = s.gated ? (one_matrix ? 4 : 3) * f : 2 * f;
  Operator& last = linear(s.last, s.gated ? "inner" : "activated", "fed", f, d);
  need(last, kInForward, Needed::kAlways, kMoment,
       per_token(stored((s.gated ? 4 : 3) * d)) + columns(per_token(product(moment))));
  // Gradients of the product, gate and up. The product's saved values are already freed.
  need(last, kOnEntry, Needed::kNoWeight, kMoment,
       columns(per_token(product((s.gated ? 3 : 2) * f))));
  need(last, kOnEntry, Needed::kWeight, kMoment,
       columns({.constant = weight_gradient(as_double(f) * as_double(d)),
                .per_token = product(2 * f)}));
  if (s.reads == "x" && s.residual_dropout == 0)  // attention and feed-forward share one gradient
    for (OperatorBytes& bytes : last.bytes)
      if (bytes.name == "d fed") bytes.name = "d attention";
  std::string result = "fed";
  if (!s.norm_behind.empty()) norm(s.norm, s.norm_behind, d, 1, result, "normed fed");
  if (!s.norm_behind.empty()) result = "normed fed";
  residual(result, s.residual_dropout, d, "h", "y");
}

void OperatorList::fused_feed_forward(const FeedForwardSizes& s) {
  std::vector<std::string> modules = s.projections;
  for (const std::string& module : {s.last, s.norm_before, s.norm_behind})
    modules.push_back(module);
  Operator& of = add({s.reads, "h"}, "y", weights_of(modules));
  const std::int64_t matrices = s.gated ? 3 : 2;
  of.forward_flops = of.input_flops = of.weight_flops =
      per_token(2 * as_double(matrices * s.hidden) * as_double(s.inner));
  fused_half(of, {.name = "feed-forward",
                  .hidden = s.hidden,
                  .width = s.inner,
                  .norm_before = !s.norm_before.empty(),
                  .norm_behind = !s.norm_behind.empty(),
                  .until_weight = wide(matrices * s.inner)});
  // Only fused operators reuse memory that fused operators freed. So plain attention's backward
  // needs new memory for gradients of q, k, v and the result, and with dropout one value per pair.
  need(of, kOnEntry, Needed::kBackward, kMoment, columns(entry_of_plain_attention_));
}

void OperatorList::feed_forward(const FeedForwardSizes& sizes) {
  sizes.fused&& fuses() ? fused_feed_forward(sizes) : plain_feed_forward(sizes);
}

// Saved bytes do not depend on which experts are chosen. Cast weights of all experts count. The
// router and the experts are divided by rows over tensor-parallel ranks, whether or not the
// activations between layers are, so all their bytes per token are `columns`.
void OperatorList::experts(const ExpertSizes& s, const std::string& norm_before,
                           const std::string& norm_behind, NormKind norm_kind) {
  const std::int64_t d = s.hidden, f = s.inner, e = s.experts, k = s.top_k;
  std::string x = "h";
  if (!norm_before.empty()) norm(norm_kind, norm_before, d, 1, "h", x = "normed h");
  Operator& router = linear(s.block + ".gate", x, "scores of experts", d, e);
  router.of_rows = true;
  for (OperatorBytes& bytes : router.bytes) std::swap(bytes.bytes, bytes.columns);
  const auto each_token = [](double bytes) { return columns(per_token(bytes)); };
  Operator& routes = add({"scores of experts"}, "shares");
  double routing = wide(e) + kInt64 * as_double(k);
  if (s.normalizes) routing += wide(k + 1);
  if (s.balances) routing += precision_.casts() ? wide(e) : stored(e);
  need(routes, kKept, Needed::kBackward, "routes",
       SharedBytes(once(s.balances ? wide(e) : 0.0)) + each_token(routing));
  const std::string each = s.block + ".experts.*.";
  Operator& of =
      add({x}, "results",
          {each + s.gate + ".weight", each + s.up + ".weight", each + s.down + ".weight"});
  of.of_rows = true;
  of.num_experts = static_cast<int>(e);
  of.experts_per_token = static_cast<int>(k);
  of.forward_flops = of.input_flops = of.weight_flops =
      per_token(6 * as_double(d) * as_double(k) * as_double(f));
  of.casted_weights = casted_weights(3 * as_double(d) * as_double(e) * as_double(f));
  const std::int64_t between = s.activation == Activation::kRelu ? 2 : 3;
  const double operands = product(k * d) * (precision_.casts() ? 2 : 1);
  // The place of each choice among the tokens sorted by expert.
  need(of, kKept, Needed::kFlows, "places", each_token(kInt64 * as_double(k)));
  need(of, kKept, Needed::kBackward, "chosen", each_token(product(k * between * f)));
  need(of, kKept, Needed::kTrains, "inner", each_token(product(k * f) + operands));
  need(of, kKeptForWeights, Needed::kTrains, "chosen",
       each_token(operands + product(k * (3 * f + d))));
  need(of, kInForward, Needed::kAlways, kMoment,
       rows(per_token(product(5 * d))) + each_token(product(2 * k * d + k * f + k)));
  need(of, kOnEntry, Needed::kBackward, kMoment, each_token(product(2 * k * d)));
  need(of, kOnEntry, Needed::kWeight, kMoment, once(weight_gradient(as_double(f) * as_double(d))));
  Operator& weighs = add({"results", "shares"}, "fed");
  // The inverse of "places", and the chosen experts' router weights, float32 in some families.
  need(weighs, kKept, Needed::kFirstFlows, "shares",
       each_token(kInt64 * as_double(k) + (s.wide_weights ? wide(k) : product(k))));
  need(weighs, kKept, Needed::kSecondFlows, "results", each_token(product(k * d)));
  std::string result = "fed";
  if (!norm_behind.empty()) norm(norm_kind, norm_behind, d, 1, result, "normed fed");
  if (!norm_behind.empty()) result = "normed fed";
  residual(result, 0, d, "h", "y");
}

void OperatorList::last_norm(NormKind kind, std::int64_t width) {
  const double d = stored(width);
  norm(kind, "", width, 1, "x", "y");
  Operator& of = operators_.all.back();
  double moment = 2 * d;
  if (fuses())
    moment = d;
  else if (kind != NormKind::kLayer)
    moment = wide(2 * width) + d;
  need(of, kInForward, Needed::kAlways, kMoment, rows(per_token(moment)));
}

void OperatorList::head(std::int64_t vocab_size, std::int64_t width, bool capped, bool has_loss) {
  Operator& of = linear("", "x", "logits", width, vocab_size);
  if (fuses()) of.plain = Operator::Plain::kNo;
  const double weights = as_double(vocab_size) * as_double(width);
  const auto of_logits = [&](double bytes) {
    return has_loss ? columns(per_token(bytes)) : SharedBytes(per_token(bytes));
  };
  need(of, kKept, Needed::kBackward, "loss", of_logits(wide(vocab_size)) + per_token(kInt64));
  if (capped)
    need(of, kKept, Needed::kBackward, "tangents", columns(per_token(product(vocab_size))));
  // Logits and log-probabilities are freed unless the gradient reuses them.
  const double free = stored_ == product_ && stored_ == kFloat ? 0.0 : wide(vocab_size);
  if (!fuses())
    need(of, kInWeight, Needed::kWeight, kMoment,
         columns({.constant = gradient_and_copy(weights), .per_token = -free}));
  need(of, kOnEntry, Needed::kBackward, kMoment,
       fuses() ? SharedBytes(per_token(wide(width))) : of_logits(wide(2 * vocab_size)));
}

// The forward computes the input gradient block by block. The weight gradient recomputes the
// logits.
void OperatorList::head_by_blocks(std::int64_t vocab_size, std::int64_t width) {
  Operator& of = add({"x"}, "loss", {"weight"});
  const double flops = 2.0 * as_double(vocab_size) * as_double(width);
  of.forward_flops = of.weight_flops = per_token(2 * flops);
  const ShapePolynomial block = per_token(wide(std::min(ops::kLossBlock, vocab_size)));
  need(of, kInForward, Needed::kAlways, kMoment, block);
  need(of, kOnEntry, Needed::kBackward, kMoment, block);
  need(of, kKept, Needed::kBackward, "labels", per_token(kInt64));
  need(of, kKept, Needed::kFlows, "d x", per_token(wide(width)));
  need(of, kKept, Needed::kWeight, "x", per_token(wide(width)));
  need(of, kKeptForWeights, Needed::kTrains, "x", per_token(wide(width)));
  need(of, kKeptForWeights, Needed::kTrains, "labels", per_token(kInt64));
}

void OperatorList::give(LayerInfo& layer) const {
  if (!made_) {
    made_ = std::make_shared<const LayerOperators>(operators_);
    cost_ = cost_of(operators_);
  }
  for (const ParameterSpec& parameter : parameters_) {
    layer.parameters.push_back(parameter);
    layer.parameters.back().name = layer.name + "." + parameter.name;
  }
  layer.operators = made_;
  layer.cost = cost_;
}

// h = A dropout(x), then y + scale * B h. A saves x, once for all readers unless each applies
// dropout or casts.
LayerOperators with_low_rank(const LayerOperators& operators, const std::vector<LowRankPair>& pairs,
                             bool drops, const Precision& precision) {
  const bool casts = precision.casts() || precision.parameter_bytes() != 4;
  const double number = precision.casts() ? as_double(precision.product_bytes()) : kFloat;
  const double product = as_double(precision.product_bytes());
  LayerOperators result;
  for (const Operator& own : operators.all) {
    result.all.push_back(own);
    for (const LowRankPair& pair : pairs) {
      const auto& weights = own.weights;
      if (weights.size() > 2 || std::find(weights.begin(), weights.end(),
                                          parameter_of(pair.name, "weight")) == weights.end())
        continue;
      Operator of{.reads = own.reads,
                  .writes = own.writes,
                  .weights = {parameter_of(pair.name, "lora_A.weight"),
                              parameter_of(pair.name, "lora_B.weight")}};
      // A saves its input, which would otherwise be free.
      for (OperatorBytes& bytes : result.all.back().bytes)
        if (bytes.field == kOnEntry && bytes.needed == Needed::kNoWeight)
          bytes.bytes.per_token -= product * as_double(pair.in);
      const double r = as_double(pair.rank), in = as_double(pair.in), out = as_double(pair.out);
      of.forward_flops = of.input_flops = of.weight_flops = per_token(2 * r * (in + out));
      if (precision.casts()) of.casted_weights = number * r * (in + out);
      const std::string x = drops || casts ? "x of " + pair.name : own.reads.front();
      for (const Field field : {kKept, kKeptForWeights}) {
        need(of, field, Needed::kTrains, x, per_token(number * in));
        if (drops)
          need(of, field, Needed::kTrains, "mask of " + pair.name, per_token(wide(pair.in)));
        need(of, field, Needed::kTrains, "h of " + pair.name, per_token(number * r));
      }
      need(of, kKeptForWeights, Needed::kTrains, "d h of " + pair.name, per_token(number * r));
      need(of, kKeptForWeights, Needed::kTrains, "d " + own.writes, per_token(number * out));
      need(of, kInForward, Needed::kAlways, "low rank", per_token(number * out));
      need(of, kOnEntry, Needed::kBackward, "low rank", per_token(number * out));
      result.all.push_back(std::move(of));
    }
  }
  return result;
}

}  // namespace sluice::detail
