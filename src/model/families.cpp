#include "model/families.h"

#include "base/nearest_name.h"
#include "family/gemma.h"
#include "family/llama.h"
#include "family/olmo2.h"
#include "family/phi3.h"
#include "family/qwen.h"
#include "model/decoder_layer.h"
#include "model/moe.h"
#include "sluice/error.h"
#include "sluice/layer.h"

namespace sluice {
namespace detail {
namespace {

std::function<std::vector<TensorMeta>(const std::vector<TensorMeta>&)> shape_function(
    const LayerInfo& info, at::ScalarType dtype) {
  if (info.computes_loss()) {
    return [](const std::vector<TensorMeta>&) {
      return std::vector<TensorMeta>{TensorMeta{{}, at::kFloat}};
    };
  }
  const std::int64_t width = info.writes.front().sizes.back();
  const bool appends = info.role == LayerRole::kEmbedding;
  const std::size_t num_written = info.writes.size();
  return [=](const std::vector<TensorMeta>& inputs) {
    TensorMeta meta{inputs.at(0).sizes, dtype};
    if (appends) {
      meta.sizes.push_back(width);
    } else {
      meta.sizes.back() = width;
    }
    std::vector<TensorMeta> written{meta};
    written.resize(num_written, TensorMeta{{}, at::kFloat});
    return written;
  };
}

template <DecoderConfig (*read)(const ConfigReader&)>
std::vector<LayerSpec> decoder_layers(const ModelSpec& model, const LayerOptions& options) {
  return make_decoder_layers(config_of(model, read), model, options);
}

template <MoeConfig (*read)(const ConfigReader&)>
std::vector<LayerSpec> moe_layers(const ModelSpec& model, const LayerOptions& options) {
  return make_moe_layers(config_of(model, read), model, options);
}
template <MoeConfig (*read)(const ConfigReader&)>
std::vector<AuxiliaryLoss> moe_losses(const ModelSpec& model) {
  return balance_losses(config_of(model, read));
}

std::string prefix_of(const LayerInfo& info) {
  return info.modules.empty() ? info.name : info.name.substr(0, info.name.rfind('.'));
}

}  // namespace

const std::vector<FamilyModules>& family_modules() {
  static const std::vector<FamilyModules> table = {
      {"llama", decoder_layers<read_llama_config>},
      {"gpt2", make_gpt2_layers},
      {"qwen2", decoder_layers<read_qwen2_config>},
      {"mistral", decoder_layers<read_mistral_config>},
      {"qwen3", decoder_layers<read_qwen3_config>},
      {"gemma2", decoder_layers<read_gemma2_config>},
      {"gemma3_text", decoder_layers<read_gemma3_config>},
      {"olmo2", decoder_layers<read_olmo2_config>},
      {"granite", decoder_layers<read_granite_config>},
      {"smollm3", decoder_layers<read_smollm3_config>},
      {"mixtral", moe_layers<read_mixtral_config>, moe_losses<read_mixtral_config>},
      {"qwen3_moe", moe_layers<read_qwen3_moe_config>, moe_losses<read_qwen3_moe_config>},
      {"olmoe", moe_layers<read_olmoe_config>, moe_losses<read_olmoe_config>},
      {"phi3", decoder_layers<read_phi3_config>},
      {"gpt_neox", make_gpt_neox_layers},
      {"starcoder2", make_starcoder2_layers},
  };
  return table;
}

double initializer_std(double initializer_range) {
  return initializer_range > 0 ? initializer_range : 0.02;
}

LayerSpec describe_layer(const LayerInfo& info, const ModelSpec& model, const LayerOptions& options,
                         const InitialValues& initial) {
  LayerSpec spec;
  spec.name = info.name;
  const std::string prefix = prefix_of(info);
  spec.prefix = prefix;
  spec.reads = info.reads;
  spec.writes.clear();
  for (const ValueSpec& value : info.writes) spec.writes.push_back(value.name);
  spec.shapes = shape_function(info, options.dtype);
  spec.role = info.role;
  for (const ParameterSpec& parameter : info.parameters) {
    if (!parameter.tied_to.empty())
      spec.ties.emplace_back(parameter.name.substr(prefix.size() + 1), parameter.tied_to);
  }
  const std::string embedding = model.layers.front().parameters.front().name;
  spec.initialize = [=](const std::string& name, const std::string& key, at::Tensor& value,
                        std::uint64_t seed) {
    if (value.dim() >= 2) {
      keyed_normal_(value, seed, key, 0.0, initial.std(name));
      if (initial.padding_row >= 0 && key == embedding)
        value.select(0, initial.padding_row).zero_();
    } else {
      value.fill_(name.ends_with("bias") ? 0.0 : initial.norm);
    }
  };
  return spec;
}

namespace {

// Freezes the variables of frozen weights that slices share (ParameterSlices::first_use).
void freeze_further_variables(torch::nn::Module& module) {
  const auto parameters = module.named_parameters();
  for (const auto& item : module.named_modules()) {
    const auto* const sliced = dynamic_cast<const SlicedModule*>(item.value().get());
    if (!sliced) continue;
    const std::string prefix = item.key().empty() ? "" : item.key() + ".";
    for (const auto& [name, held] : sliced->slices()) {
      if (!held.first_use.empty() && !parameters[prefix + held.first_use].requires_grad())
        parameters[prefix + name].set_requires_grad(false);
    }
  }
}

}  // namespace

void freeze_as(const LayerInfo& info, LayerSpec& spec) {
  std::vector<std::string> frozen;
  for (const ParameterSpec& parameter : info.parameters) {
    if (!parameter.trainable) frozen.push_back(parameter.name.substr(spec.full_name("").size()));
  }
  if (frozen.empty()) return;
  spec.make = [make = std::move(spec.make), frozen = std::move(frozen)] {
    std::shared_ptr<torch::nn::Module> module = make();
    const auto parameters = module->named_parameters();
    for (const std::string& name : frozen) {
      // With expert parallelism, other ranks hold some of the layer's experts.
      if (const at::Tensor* const parameter = parameters.find(name))
        at::Tensor(*parameter).set_requires_grad(false);
    }
    freeze_further_variables(*module);
    return module;
  };
}

}  // namespace detail

namespace {

const detail::FamilyModules& family_of(const ModelSpec& model) {
  std::vector<std::string> names;
  for (const detail::FamilyModules& family : detail::family_modules()) {
    if (family.name == model.family) return family;
    names.push_back(family.name);
  }
  throw Error(ErrorKind::kInput, {.what = "model family '" + model.family + "' has no modules",
                                  .where = "model_type",
                                  .remedy = suggest_name(model.family, names)});
}

}  // namespace

namespace {

// With a LoRA adapter, all layers use plain operators.
bool fuses(const LayerOptions& options) { return options.fused && !options.adapter; }

}  // namespace

std::vector<LayerSpec> make_layers(const ModelSpec& model, const LayerOptions& given) {
  LayerOptions options = given;
  options.fused = fuses(given);
  std::vector<LayerSpec> layers = family_of(model).make(model, options);
  detail::attach_adapter(model, options, layers);
  for (std::size_t i = 0; i < layers.size(); ++i) detail::freeze_as(model.layers[i], layers[i]);
  return layers;
}

Model causal_lm(const ModelSpec& model, const LayerOptions& options) {
  const auto auxiliary = family_of(model).auxiliary;
  const bool has_loss = model.layers.back().computes_loss();
  const LossFunction of_logits = fuses(options) ? detail::fused_causal_lm_loss : causal_lm_loss;
  return {.layers = make_layers(model, options),
          .inputs = {"input_ids", "labels", "attention_mask", "position_ids"},
          .outputs = {has_loss ? "loss" : "logits"},
          .loss = has_loss ? detail::loss_of_head : of_logits,
          .count = [](const Values& batch) { return count_tokens(batch.on_host().get("labels")); },
          .auxiliary = auxiliary ? auxiliary(model) : std::vector<AuxiliaryLoss>(),
          .optional_inputs = {"attention_mask", "position_ids"}};
}

}  // namespace sluice
