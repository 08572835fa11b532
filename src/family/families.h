#pragma once

#include <string>
#include <vector>

#include "family/config_reader.h"
#include "family/decoder_config.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

struct Family {
  std::string name;  // model_type of config.json
  ModelSpec (*read)(const ConfigReader& config, const Precision& precision);
  DecoderConfig (*decoder)(const ConfigReader& config) = nullptr;  // null without a DecoderConfig
  bool conv1d = false;  // block matrices are stored as [in, out]
};

const std::vector<Family>& families();
const Family* find_family(const std::string& name);

// Throws Error(kInput) if the text is no JSON object.
Json parse_config(const std::string& text, const std::string& file_name);

// Returns the configuration of the language model inside (nested.h).
Json language_config(const Json& document);

template <typename Config>
Config config_of(const ModelSpec& model, Config (*read)(const ConfigReader&)) {
  const Json document = language_config(parse_config(model.config_text, "config.json"));
  return read(ConfigReader(document, "config.json"));
}

}  // namespace sluice::detail
