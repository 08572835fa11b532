// The model families that sluice knows: one row each, which plan, model and io read.
//
// Owns: the table. Does not own: what a family's config.json means (llama.h, gpt2.h), its modules
// (src/model has a row of the same name).
// Thread-safety: constant.
#pragma once

#include <string>
#include <vector>

#include "family/config_reader.h"
#include "family/decoder_config.h"
#include "sluice/model_spec.h"

namespace sluice::detail {

struct Family {
  std::string name;          // model_type of config.json
  std::string architecture;  // its language model in `architectures` of config.json
  std::string base_prefix;   // what names in a checkpoint of the bare model lack: "model."
  // Endings of the names of buffers that older versions of transformers stored beside the weights.
  std::vector<std::string> buffers;
  // Layers, values, vocab_size, max_positions.
  ModelSpec (*read)(const ConfigReader& config, const Precision& precision);
  DecoderConfig (*decoder)(const ConfigReader& config) = nullptr;  // for families of decoders
  bool conv1d = false;  // the matrices of its blocks are stored as [in, out]
};

const std::vector<Family>& families();
// nullptr: not known.
const Family* find_family(const std::string& name);

// The object in the text of a config.json. Throws Error(kInput).
Json parse_config(const std::string& text, const std::string& file_name);

// The configuration of the language model in it (nested.h).
Json language_config(const Json& document);

// A family's own configuration of a model that was read before.
template <typename Config>
Config config_of(const ModelSpec& model, Config (*read)(const ConfigReader&)) {
  const Json document = language_config(parse_config(model.config_text, "config.json"));
  return read(ConfigReader(document, "config.json"));
}

}  // namespace sluice::detail
