// Mixture of experts in place of a block's feed-forward: a router gives every token to top_k of
// the experts, each a gated MLP, and weighs what these return.
//
// Owns: settings that the families share, names, shapes and costs of router and experts.
// Does not own: which layers have experts (the families), modules (src/model/experts.h).
// Thread-safety: values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "plan/families/config_reader.h"
#include "plan/families/number_bytes.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

struct ExpertsConfig {
  // Inside the layer: "{block}.gate", "{block}.experts.N.{gate}", of up, of down.
  std::string block = "mlp", gate = "gate_proj", up = "up_proj", down = "down_proj";
  std::int64_t num_experts = 0, top_k = 0;
  std::int64_t intermediate_size = 0;  // of one expert
  bool normalizes = false;             // the weights of a token's experts add up to 1
  bool wide_weights = false;           // they stay float32 beside experts of a half type
  // How the load balancing loss of a layer counts in the loss; none: there is no such loss.
  std::optional<double> balance_coefficient;
};

// num_experts_per_tok (default: top_k), output_router_logits, router_aux_loss_coef (default:
// coefficient). num_experts: of the configuration. Throws Error(kInput) naming the field.
void read_routing(const ConfigReader& config, std::int64_t top_k, double coefficient,
                  ExpertsConfig& out);

// Appends weights of the router and of every expert, in the order of the module.
void append_experts(LayerInfo& layer, const ExpertsConfig& experts, std::int64_t hidden_size);

// What router and experts add to the cost of a block without a feed-forward: kept of them is also
// the input of the router, not that of the norm before it.
struct ExpertsCost {
  ShapePolynomial flops;  // forward; as many for the inputs, and for the weights
  ShapePolynomial after_forward, after_input, on_entry;
  ShapePolynomial frozen_after_forward, frozen_on_entry;
  ShapePolynomial in_forward;
};
ExpertsCost experts_cost(const ExpertsConfig& experts, std::int64_t hidden_size,
                         const NumberBytes& bytes);

}  // namespace sluice::detail
