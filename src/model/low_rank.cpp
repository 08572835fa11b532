#include "model/low_rank.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>

#include <map>
#include <memory>
#include <set>
#include <utility>

#include "kind/adapter_files.h"
#include "layer/draw_low_rank.h"
#include "layer/unfilled.h"
#include "sluice/error.h"

namespace sluice {
namespace {

class Matrix : public torch::nn::Module {
 public:
  explicit Matrix(at::Tensor value) { weight = register_parameter("weight", std::move(value)); }
  at::Tensor weight;
};

[[noreturn]] void refuse(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage,
              {.what = what, .where = "LayerOptions::adapter", .remedy = remedy});
}

std::set<std::string> parameters_of(const LayerInfo& layer) {
  std::set<std::string> names;
  for (const ParameterSpec& parameter : layer.parameters)
    if (is_adapter_parameter(parameter.name)) names.insert(parameter.name);
  return names;
}

std::set<std::string> parameters_of(const ModelSpec& model) {
  std::set<std::string> names;
  for (const LayerInfo& layer : model.layers) names.merge(parameters_of(layer));
  return names;
}

std::set<std::string> parameters_of(const std::optional<Adapter>& adapter) {
  std::set<std::string> names;
  if (!adapter) return names;
  for (const AdaptedLinear& layer : adapter->layers) {
    names.insert(layer.a());
    names.insert(layer.b());
  }
  return names;
}

// LoRA adapters of one layer, by the linear module's name in it.
struct Adaptations {
  std::map<std::string, AdaptedLinear> of;
  Adapter settings;
  c10::Device device;

  void apply(torch::nn::Module& module) const {
    for (const auto& [name, adapted] : of) {
      torch::nn::Module* found = name.empty() ? &module : nullptr;
      for (const auto& item : module.named_modules()) {
        if (!found && item.key() == name) found = item.value().get();
      }
      auto* const linear = dynamic_cast<AdaptableLinear*>(found);
      if (!linear) refuse("'" + adapted.name + "' is not a linear layer", "leave it out");
      linear->adapt(adapted, settings.scale(adapted), settings.dropout, device);
    }
  }
};

}  // namespace

void AdaptableLinear::adapt(const AdaptedLinear& layer, double scale, double dropout,
                            c10::Device device) {
  const auto matrix = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    const auto options = at::TensorOptions(at::kFloat).device(device);
    return register_module(name, std::make_shared<Matrix>(unfilled({rows, columns}, options)))
        ->weight;
  };
  a_ = matrix("lora_A", layer.rank, layer.in);
  b_ = matrix("lora_B", layer.out, layer.rank);
  scale_ = scale;
  dropout_ = dropout;
}

at::Tensor AdaptableLinear::adapted(const at::Tensor& y, const at::Tensor& x) const {
  if (!a_.defined()) return y;
  // Autocast casts the products' inputs itself.
  const bool casts = !at::autocast::is_autocast_enabled(x.device().type());
  const at::Tensor wide = casts ? x.to(a_.scalar_type()) : x;
  const at::Tensor h = at::linear(at::dropout(wide, dropout_, is_training()), a_);
  return (y + at::linear(h * scale_, b_)).to(y.scalar_type());
}

void detail::attach_adapter(const ModelSpec& model, const LayerOptions& options,
                            std::vector<LayerSpec>& layers) {
  if (parameters_of(model) != parameters_of(options.adapter)) {
    refuse("the adapters of the model's description and of the options differ",
           "describe the model by with_adapter(), and give that adapter to both");
  }
  if (!options.adapter) return;
  Adapter settings = *options.adapter;
  settings.layers.clear();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    LayerSpec& spec = layers[i];
    Adaptations adaptations{{}, settings, options.device};
    const std::string start = spec.prefix.value_or(spec.name);
    const std::set<std::string> own = parameters_of(model.layers[i]);
    for (const AdaptedLinear& adapted : options.adapter->layers) {
      if (!own.contains(adapted.a())) continue;
      const bool is_whole_layer = adapted.name == start;
      adaptations.of.emplace(is_whole_layer ? "" : adapted.name.substr(start.size() + 1), adapted);
    }
    if (adaptations.of.empty()) continue;
    spec.make = [make = std::move(spec.make), adaptations] {
      std::shared_ptr<torch::nn::Module> module = make();
      adaptations.apply(*module);
      return module;
    };
    spec.initialize = [initialize = std::move(spec.initialize)](
                          const std::string& name, const std::string& key, at::Tensor& value,
                          std::uint64_t seed) {
      if (is_adapter_parameter("." + name))
        draw_low_rank(key, value, seed);
      else
        initialize(name, key, value, seed);
    };
  }
}

}  // namespace sluice
