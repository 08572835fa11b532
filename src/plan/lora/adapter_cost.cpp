// Costs of LibTorch's operators on the CPU: h = A dropout(x), scaled, then y + B h.
#include "plan/lora/adapter_cost.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "plan/families/number_bytes.h"
#include "plan/lora/adapter_files.h"

namespace sluice::detail {
namespace {

// "model.layers.0.mlp" of "model.layers.0.mlp.up_proj".
std::string parent_of(const std::string& name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(0, dot);
}

// The matrix that a module ends with: what it reads, nobody else does.
bool is_last_of_parent(const LayerInfo& layer, const AdaptedLinear& adapted) {
  const std::string parent = parent_of(adapted.name) + ".";
  std::string last;
  for (const ParameterSpec& parameter : layer.parameters) {
    const bool is_own = parameter.name.starts_with(parent) && parameter.shape.size() == 2 &&
                        !is_adapter_parameter(parameter.name);
    if (is_own) last = parameter.name;
  }
  return last == adapted.name + ".weight";
}

// The inputs x that A keeps, by who reads them: one tensor for all adapters of a common input,
// unless each has its own mask or casts it.
class KeptInputs {
 public:
  KeptInputs(double dropout, const Precision& precision)
      : drops_(dropout > 0),
        // To the type of A: float32, or under autocast that of products.
        casts_(precision.casts() || precision.parameter_bytes() != 4),
        bytes_(precision) {}

  double bytes(const LayerInfo& layer, const AdaptedLinear& adapted) {
    const double x = number() * static_cast<double>(adapted.in);
    // The mask has the type of what it drops.
    const double mask = drops_ ? (bytes_.wide(adapted.in)) : 0.0;
    if (drops_ || casts_) return x + mask;
    const bool shared = !is_last_of_parent(layer, adapted);
    if (shared && !seen_.insert({parent_of(adapted.name), adapted.in}).second) return 0;
    return x;
  }
  // Bytes of an element of x, h and their gradients.
  double number() const { return bytes_.product(1) < 4 && !autocast() ? 4.0 : bytes_.product(1); }

 private:
  bool autocast() const { return bytes_.casted_weights(1) > 0; }

  bool drops_, casts_;
  NumberBytes bytes_;
  std::set<std::pair<std::string, std::int64_t>> seen_;
};

}  // namespace

void add_adapter_cost(LayerInfo& layer, const std::vector<AdaptedLinear>& adapted, double dropout,
                      const Precision& precision) {
  const NumberBytes bytes(precision);
  KeptInputs inputs(dropout, precision);
  LayerCost cost = layer.frozen_cost.value_or(layer.cost);
  cost.forward_flops = layer.cost.forward_flops;
  cost.input_flops = layer.cost.input_flops;
  cost.weight_flops = {};
  double widest = 0;
  for (const AdaptedLinear& each : adapted) {
    const auto r = static_cast<double>(each.rank), in = static_cast<double>(each.in),
               out = static_cast<double>(each.out);
    const double flops = 2 * r * (in + out);
    cost.forward_flops.per_token += flops;
    cost.input_flops.per_token += flops;
    cost.weight_flops.per_token += flops;
    const double kept = inputs.bytes(layer, each) + inputs.number() * r;
    cost.after_forward.per_token += kept;
    // For W also the gradients of h and y.
    cost.after_input.per_token += kept + inputs.number() * (r + out);
    cost.casted_weights += bytes.casted_weights(r * (in + out));
    widest = std::max(widest, inputs.number() * out);
  }
  cost.in_forward.per_token += widest;
  cost.on_entry.per_token += widest;
  layer.cost = cost;
  layer.frozen_cost.reset();
}

}  // namespace sluice::detail
