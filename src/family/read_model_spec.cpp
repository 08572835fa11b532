#include "sluice/model_spec.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "base/hub_id.h"
#include "base/nearest_name.h"
#include "base/strict_json.h"
#include "family/families.h"
#include "family/family_kind.h"
#include "family/known_keys.h"
#include "family/nested.h"
#include "family/planned.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;

std::string read_dtype(const detail::ConfigReader& config) {
  const std::string key = config.has("dtype") ? "dtype" : "torch_dtype";
  std::string dtype = config.text(key, "");
  const std::vector<std::string> known = {"float32", "bfloat16", "float16", "float64"};
  if (!dtype.empty() && std::find(known.begin(), known.end(), dtype) == known.end()) {
    config.fail(key, "unknown data type '" + dtype + "'", suggest_name(dtype, known));
  }
  return dtype;
}

const detail::Family& family_of(const detail::ConfigReader& config) {
  if (!config.has("model_type")) config.fail_missing("model_type", "add it: 'llama'");
  const std::string type = config.text("model_type", "");
  if (const detail::Family* family = detail::find_family(type)) return *family;
  std::vector<std::string> names;
  for (const detail::Family& family : detail::families()) names.push_back(family.name);
  config.fail("model_type", "model family '" + type + "' is not known", suggest_name(type, names));
}

// Floating point cannot overflow for malicious sizes.
double approximate_parameters(const ModelSpec& model) {
  double sum = 0;
  for (const LayerInfo& layer : model.layers) {
    for (const ParameterSpec& parameter : layer.parameters)
      sum += static_cast<double>(parameter.numel());
  }
  return sum;
}

void require_possible_size(const ModelSpec& model, const std::string& file_name) {
  if (approximate_parameters(model) <= detail::kMaxParameters) return;
  throw Error(ErrorKind::kInput,
              {.what = "the model has more than 1e15 parameters",
               .where = file_name,
               .remedy = "check hidden_size, vocab_size and the number of layers"});
}

void set_types(ModelSpec& model, const Precision& precision) {
  for (LayerInfo& layer : model.layers) {
    for (ParameterSpec& parameter : layer.parameters) parameter.dtype = precision.parameters;
    const bool is_product = layer.role == LayerRole::kHead && precision.casts();
    for (ValueSpec& value : layer.writes) {
      if (value.sizes.empty()) continue;  // a loss has no dtype to set
      value.dtype = is_product ? precision.products : precision.parameters;
    }
  }
}

ModelSpec spec_of(const detail::ConfigReader& config, const Precision& precision = {}) {
  const detail::Family& family = family_of(config);
  if (config.has("quantization_config")) {
    config.fail("quantization_config", "quantized weights are not implemented",
                "use the unquantized model");
  }
  detail::require_neutral_keys(config, detail::config_keys(), family.name);
  ModelSpec spec = family.read(config, precision);
  set_types(spec, precision);
  spec.family = family.name;
  spec.dtype = read_dtype(config);
  require_possible_size(spec, config.file_name());
  return spec;
}

bool is_family(const Json& document) {
  const Json& type = document.at("model_type");
  return type.is_string() && detail::find_family(type.text()) != nullptr;
}

// Accepts a file, or a folder with config.json.
std::string config_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code code;
  const char* const remedy = "name a Hugging Face model folder or a config.json";
  if (!fs::is_directory(path, code)) {
    if (fs::exists(path, code)) return path;
    const std::string download = download_advice(path);
    throw Error(ErrorKind::kInput, {.what = "no such file or folder",
                                    .where = path,
                                    .remedy = download.empty() ? remedy : download});
  }
  std::string file = (fs::path(path) / "config.json").string();
  if (fs::exists(file, code)) return file;
  throw Error(ErrorKind::kInput,
              {.what = "the model folder has no config.json", .where = path, .remedy = remedy});
}

}  // namespace

Json detail::parse_config(const std::string& text, const std::string& file_name) {
  Json document = parse_strict_json(text, file_name);
  if (!document.is_object()) {
    throw Error(ErrorKind::kInput, {.what = "the model configuration is not a JSON object",
                                    .where = file_name,
                                    .remedy = "name the config.json of a Hugging Face model"});
  }
  return document;
}

namespace {

// A model of planned.h.
ModelSpec planned_spec_of(const Json& document, const std::string& text,
                          const std::string& file_name, const Precision& precision) {
  ModelSpec spec = detail::planned_model(document, file_name, precision);
  set_types(spec, precision);
  require_possible_size(spec, file_name);
  spec.config_text = text;
  spec.source = detail::planned_source();
  return spec;
}

// Refuses a model of planned.h by its name.
void require_modules(const Json& document, const detail::ConfigReader& config) {
  if (!detail::is_planned_model(document)) return;
  const std::string remedy =
      "use sluice plan or split; `sluice graph tool` exports a model of PyTorch that can be "
      "trained";
  if (detail::is_layer_list(document))
    config.fail("layers", "a list of layers can be planned, but not trained", remedy);
  const Json& type = document.at("model_type");
  config.fail("model_type",
              "models of the family '" + (type.is_string() ? type.text() : std::string("?")) +
                  "' can be planned, but not trained",
              remedy);
}

// `directory` may contain the weights, or is "".
ModelSpec spec_of_part(const Json& document, const std::string& file_name,
                       const std::string& directory, const Precision& precision) {
  detail::require_neutral_keys(detail::ConfigReader(document, file_name), detail::config_keys());
  const Json config = detail::language_config(document);
  ModelSpec spec = spec_of(detail::ConfigReader(config, file_name, "text_config."), precision);
  detail::name_as_stored(
      spec, document,
      directory.empty() ? std::set<std::string>() : detail::stored_names(directory));
  return spec;
}

ModelSpec parse_model_spec(const std::string& config_json, const std::string& file_name,
                           const std::string& directory, const Precision& precision) {
  const Json document = detail::parse_config(config_json, file_name);
  const detail::ConfigReader config(document, file_name);
  require_modules(document, config);
  if (is_family(document) && config.has("text_config")) {
    config.fail("text_config",
                "a language model inside another one's configuration is not implemented",
                "leave it out, or make it a separate config.json");
  }
  const bool is_whole = detail::is_supported_vision_language(document);
  if (is_whole) {
    const Json text = detail::language_config(document);
    detail::require_bare_head(detail::ConfigReader(text, file_name, "text_config."));
  }
  ModelSpec spec = is_whole ? spec_of_part(document, file_name, directory, precision)
                            : spec_of(config, precision);
  spec.config_text = config_json;
  spec.source = detail::family_source(spec);
  return spec;
}

std::string folder_of(const std::string& path) {
  std::error_code code;
  return std::filesystem::is_directory(path, code) ? path : std::string();
}

}  // namespace

ModelSpec parse_model_spec(const std::string& config_json, const std::string& file_name) {
  return parse_model_spec(config_json, file_name, Precision());
}

ModelSpec parse_model_spec(const std::string& config_json, const std::string& file_name,
                           const Precision& precision) {
  return parse_model_spec(config_json, file_name, /*directory=*/"", precision);
}

ModelSpec read_model_spec(const std::string& path) { return read_model_spec(path, Precision()); }

ModelSpec read_model_spec(const std::string& path, const Precision& precision) {
  const std::string file = config_file(path);
  return parse_model_spec(read_text(file, kMaxConfigBytes), file, folder_of(path), precision);
}

ModelSpec detail::read_planned_spec(const std::string& path, const Precision& precision) {
  const std::string file = config_file(path);
  const std::string text = read_text(file, kMaxConfigBytes);
  const Json document = parse_config(text, file);
  return is_planned_model(document) ? planned_spec_of(document, text, file, precision)
                                    : sluice::read_model_spec(path, precision);
}

ModelSpec read_language_model_spec(const std::string& path) {
  const std::string file = config_file(path);
  const std::string text = read_text(file, kMaxConfigBytes);
  const Json document = detail::parse_config(text, file);
  if (detail::is_planned_model(document)) return planned_spec_of(document, text, file, Precision());
  if (!document.at("text_config").is_object())
    return parse_model_spec(text, file, folder_of(path), Precision());
  ModelSpec spec = is_family(document) ? spec_of(detail::ConfigReader(document, file))
                                       : spec_of_part(document, file, folder_of(path), Precision());
  spec.config_text = text;
  spec.source = detail::family_source(spec);
  return spec;
}

}  // namespace sluice
