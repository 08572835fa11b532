// NeMo AutoModel's split. Like AutoModel, it only supports embed_tokens, layers.K, norm and an
// untied lm_head. Unlike AutoModel, it rejects module lists that omit a layer.
#include <algorithm>
#include <string_view>

#include "base/format.h"
#include "plan/partition/convention.h"
#include "plan/partition/shares.h"
#include "plan/peers/automodel.h"
#include "sluice/parts/peers.h"

namespace sluice::detail {
namespace {

constexpr std::string_view kEmbedding = "embed_tokens";
constexpr std::string_view kBasePrefix = "model.";

bool has_known_structure(const ModelSpec& model) {
  return static_cast<int>(model.layers.size()) >= model.block_range().second + 2 &&
         model.layers.front().name.ends_with(kEmbedding);
}

void require_supported(const ModelSpec& model) {
  if (!has_known_structure(model)) {
    refuse("convention automodel does not support the structure of this model",
           "use convention sluice: automodel needs embed_tokens, layers, norm and lm_head");
  }
  validate_hf_model_for_pipeline_support(model);
}

void require_model_name(const char* option, const std::optional<std::string>& given,
                        const std::string& of_model) {
  if (given && *given != of_model) {
    refuse(std::string(option) + " '" + *given + "' differs from the model's",
           "leave it out: the model's is '" + of_model + "'");
  }
}

// Options that are not set come from the model.
HfStageOptions stage_options(const ModelSpec& model, const PartitionOptions& options) {
  const std::string& first = model.layers.front().name;
  const std::string prefix = first.substr(0, first.size() - kEmbedding.size());
  const std::string head = model.layers.back().name;
  if (model.num_parameters() > 0) {
    require_model_name("the prefix", options.prefix, prefix);
    require_model_name("the name of the head", options.lm_head_name, head);
    if (!options.embeddings || !options.lm_head) {
      const std::string& lost =
          (options.embeddings ? model.layers.back() : model.layers.front()).parameters[0].name;
      refuse("the parameter '" + lost + "' would be on no stage", "keep embeddings and head");
    }
  }
  // AutoModel keeps a nested language model's encoders outside of the language model's prefix.
  const bool beside = model.num_parameters() > 0 && prefix != kBasePrefix && options.multimodal;
  std::vector<std::string> extras;
  if (beside) {
    for (const std::string& suffix : multimodal_suffixes()) {
      extras.push_back(std::string(kBasePrefix) + suffix);
    }
  }
  extras.insert(extras.end(), options.extra_modules.begin(), options.extra_modules.end());
  return {.include_embeddings = options.embeddings,
          .include_lm_head = options.lm_head,
          .include_rotary_emb = options.rotary,
          .include_multimodal_encoders = options.multimodal && !beside,
          .extra_module_fqns = std::move(extras),
          .fqn_prefix = options.prefix.value_or(prefix),
          .lm_head_fqn = options.lm_head_name.value_or(head)};
}

LayerNames names_with(const ModelSpec& model, const HfStageOptions& ends) {
  LayerNames layers = hf_names(model);
  const int last_decoder = layers.position(layers.num_decoders) - 1;
  for (int i = layers.first_decoder; i <= last_decoder; ++i) {
    layers.names[i] = {formatted("{}layers.{}", ends.fqn_prefix, i - layers.first_decoder)};
  }
  layers.names.front() = {ends.fqn_prefix + std::string(kEmbedding)};
  layers.names[last_decoder + 1] = {ends.fqn_prefix + "norm"};
  layers.names.back() = {ends.lm_head_fqn};
  if (!ends.include_embeddings) layers.names.front().clear();
  if (!ends.include_lm_head) layers.names.back().clear();
  if (ends.include_rotary_emb) layers.stateless = {ends.fqn_prefix + "rotary_emb"};
  layers.extras = ends.extra_module_fqns;
  if (ends.include_multimodal_encoders) {
    for (const std::string& suffix : multimodal_suffixes()) {
      layers.extras.push_back(ends.fqn_prefix + suffix);
    }
  }
  return layers;
}

void require_new_extras(const LayerNames& layers) {
  for (const std::vector<std::string>& names : layers.names) {
    for (const std::string& name : names) {
      if (std::find(layers.extras.begin(), layers.extras.end(), name) != layers.extras.end()) {
        refuse("the extra module '" + name + "' is a layer that has a stage already",
               "leave it out");
      }
    }
  }
}

}  // namespace

LayerNames automodel_names(const ModelSpec& model, const PartitionOptions& options) {
  if (!has_known_structure(model)) return hf_names(model);
  return names_with(model, stage_options(model, options));
}

Split automodel_split(const ModelSpec& model, const PartitionOptions& options,
                      const ScheduleInfo* schedule) {
  require_supported(model);
  const HfStageOptions ends = stage_options(model, options);
  const LayerNames layers = names_with(model, ends);
  require_new_extras(layers);
  if (!options.modules.empty()) return split_as_listed(layers, options.modules);
  const int num_stages = counted_stages(options, schedule, layers.num_decoders);
  ModuleNames modules = generate_hf_model_fqn_per_model_part(num_stages, layers.num_decoders, ends);
  Split split =
      split_by_shares(layers, even_shares(layers.num_decoders, num_stages, Remainder::kFirst));
  split.modules = std::move(modules);
  return split;
}

}  // namespace sluice::detail

namespace sluice {

void validate_hf_model_for_pipeline_support(const ModelSpec& model) {
  if (!detail::has_known_structure(model)) return;
  for (const LayerInfo& layer : model.layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      if (parameter.tied_to.empty()) continue;
      detail::refuse("AutoModel's pipelines do not support tied weights: '" + parameter.name +
                         "' is '" + parameter.tied_to + "'",
                     "use convention sluice, which ties them across stages");
    }
  }
}

}  // namespace sluice
