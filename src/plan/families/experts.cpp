// Field meanings are those of transformers' MixtralConfig, Qwen3MoeConfig, OlmoeConfig.
#include "plan/families/experts.h"

#include <algorithm>

#include "plan/families/decoder.h"

namespace sluice::detail {
namespace {

constexpr double kInt64 = 8;

double as_double(std::int64_t count) { return static_cast<double>(count); }

}  // namespace

void read_routing(const ConfigReader& config, std::int64_t top_k, double coefficient,
                  ExpertsConfig& out) {
  out.top_k = config.size("num_experts_per_tok", top_k);
  if (out.top_k > out.num_experts) {
    config.fail(
        "num_experts_per_tok",
        std::to_string(out.top_k) + " experts for a token, of " + std::to_string(out.num_experts),
        "write at most the number of experts");
  }
  const double weight = config.number("router_aux_loss_coef", coefficient, 0.0, 1e6);
  if (config.flag("output_router_logits", false)) out.balance_coefficient = weight;
}

void append_experts(LayerInfo& layer, const ExpertsConfig& experts, std::int64_t hidden_size) {
  const std::int64_t d = hidden_size, f = experts.intermediate_size;
  append_parameters(layer, experts.block + ".gate", {experts.num_experts, d});
  for (std::int64_t i = 0; i < experts.num_experts; ++i) {
    const std::string expert = experts.block + ".experts." + std::to_string(i) + ".";
    append_parameters(layer, expert + experts.gate, {f, d});
    append_parameters(layer, expert + experts.up, {f, d});
    append_parameters(layer, expert + experts.down, {d, f});
  }
}

// Elements: D hidden size, F inner size of an expert, E experts, K of them for a token.
ExpertsCost experts_cost(const ExpertsConfig& experts, std::int64_t hidden_size,
                         const NumberBytes& bytes) {
  const std::int64_t d = hidden_size, f = experts.intermediate_size;
  const std::int64_t e = experts.num_experts, k = experts.top_k;
  ExpertsCost cost;
  // A token meets the router and K experts; what is held does not depend on which.
  cost.flops.per_token =
      2.0 * as_double(d) * as_double(e) + 6.0 * as_double(d) * as_double(k) * as_double(f);
  const double weights =
      as_double(d) * as_double(e) + 3.0 * as_double(d) * as_double(e) * as_double(f);
  // Probabilities of all experts; those and the numbers of the K chosen; where these go among the
  // tokens sorted by expert, and back.
  double routing = NumberBytes::wide(e) + 3 * kInt64 * as_double(k) +
                   (experts.wide_weights ? NumberBytes::wide(k) : bytes.product(k));
  if (experts.normalizes) routing += NumberBytes::wide(k + 1);
  if (experts.balance_coefficient) {
    routing += bytes.casts() ? NumberBytes::wide(e) : bytes.stored(e);
  }
  // Of every chosen expert gate, its activation, up, their product and the result.
  const double chosen = bytes.product(k * (4 * f + d));
  const double constant =
      bytes.casted_weights(weights) + (experts.balance_coefficient ? NumberBytes::wide(e) : 0.0);
  cost.after_forward = {.constant = constant,
                        .per_token = routing + chosen + bytes.operand(d) + bytes.operand(k * d, 2)};
  // The input of down serves its weight's gradient only.
  cost.frozen_after_forward = {.constant = constant,
                               .per_token = routing + chosen - bytes.product(k * f)};
  // Of every matrix its input and the gradient of its output.
  cost.after_input = {.constant = bytes.casted_weights(weights),
                      .per_token = bytes.operand(d) + bytes.product(e) + bytes.operand(k * d, 2) +
                                   bytes.product(k * (3 * f + d))};
  return cost;
}

}  // namespace sluice::detail
