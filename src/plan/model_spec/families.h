// The decoder families that sluice knows, one file each.
//
// Owns: the table of families; per family: meaning of its config.json, names and shapes of its
// parameters. Does not own: modules (model).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/model_spec/config_reader.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

struct Family {
  std::string name;  // model_type
  DecoderConfig (*read)(const ConfigReader& config);
  std::vector<LayerInfo> (*layers)(const DecoderConfig& config);
};

const std::vector<Family>& families();

// `lm_head`, tied to the parameter `embedding` where the configuration says so.
LayerInfo head_layer(const DecoderConfig& config, const std::string& embedding);

DecoderConfig read_llama(const ConfigReader& config);
std::vector<LayerInfo> llama_layers(const DecoderConfig& config);

DecoderConfig read_gpt2(const ConfigReader& config);
std::vector<LayerInfo> gpt2_layers(const DecoderConfig& config);

}  // namespace sluice::detail
