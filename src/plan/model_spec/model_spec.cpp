#include "sluice/model_spec.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "base/strict_json.h"
#include "plan/model_spec/families.h"
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

const detail::Family& find_family(const detail::ConfigReader& config) {
  if (!config.has("model_type")) config.fail("model_type", "is missing", "add it: 'llama'");
  const std::string type = config.text("model_type", "");
  std::vector<std::string> names;
  for (const detail::Family& family : detail::families()) {
    if (family.name == type) return family;
    names.push_back(family.name);
  }
  config.fail("model_type", "model family '" + type + "' is not known", suggest_name(type, names));
}

// In floating point, so that a hostile product cannot overflow.
double approximate_parameters(const DecoderConfig& c) {
  const double d = static_cast<double>(c.hidden_size);
  const double heads =
      static_cast<double>((c.num_attention_heads + c.num_key_value_heads) * c.head_dim);
  const double layer = 2 * d * heads + 3 * d * static_cast<double>(c.intermediate_size);
  return layer * static_cast<double>(c.num_layers) +
         d * (2 * static_cast<double>(c.vocab_size) +
              static_cast<double>(c.max_position_embeddings));
}

nlohmann::json parse_config(const std::string& text, const std::string& file_name) {
  nlohmann::json document = parse_strict_json(text, file_name);
  if (!document.is_object()) {
    throw Error(ErrorKind::kInput, "the model configuration is not a JSON object", file_name,
                "name the config.json of a Hugging Face model");
  }
  return document;
}

ModelSpec spec_of(const detail::ConfigReader& config) {
  const detail::Family& family = find_family(config);
  if (config.has("quantization_config")) {
    config.fail("quantization_config", "quantized weights are not implemented",
                "use the unquantized model");
  }
  ModelSpec spec;
  spec.family = family.name;
  spec.config = family.read(config);
  spec.dtype = read_dtype(config);
  if (approximate_parameters(spec.config) > detail::kMaxParameters) {
    throw Error(ErrorKind::kInput, "the model has more than 1e15 parameters", config.file_name(),
                "check hidden_size, vocab_size and the number of layers");
  }
  spec.layers = family.layers(spec.config);
  return spec;
}

bool is_family(const nlohmann::json& document) {
  const auto type = document.find("model_type");
  return type != document.end() &&
         std::any_of(detail::families().begin(), detail::families().end(),
                     [&](const detail::Family& family) { return *type == family.name; });
}

// The language model of `outer`, whose sizes win.
nlohmann::json nested_config(const nlohmann::json& outer, const nlohmann::json& nested) {
  nlohmann::json config = nested;
  for (const char* key : {"hidden_size", "vocab_size"}) {
    if (outer.contains(key) && !outer.at(key).is_null()) config[key] = outer.at(key);
  }
  for (const char* key : {"tie_word_embeddings", "dtype", "torch_dtype", "quantization_config"}) {
    if (!config.contains(key) && outer.contains(key)) config[key] = outer.at(key);
  }
  // transformers ties the head when either object says so.
  const char* const tie = "tie_word_embeddings";
  if (outer.contains(tie) && outer.at(tie) == true) config[tie] = true;
  return config;
}

std::string move_under(const std::string& name) {
  const std::string from = "model.", to = "model.language_model.";
  return name.starts_with(from) ? to + name.substr(from.size()) : name;
}

// A file, or config.json in a folder.
std::string config_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code code;
  const char* const remedy = "name a Hugging Face model folder or a config.json";
  if (!fs::is_directory(path, code)) {
    if (fs::exists(path, code)) return path;
    throw Error(ErrorKind::kInput, "no such file or folder", path, remedy);
  }
  std::string file = (fs::path(path) / "config.json").string();
  if (fs::exists(file, code)) return file;
  throw Error(ErrorKind::kInput, "the model folder has no config.json", path, remedy);
}

}  // namespace

namespace detail {

const std::vector<Family>& families() {
  static const std::vector<Family> table = {
      {"llama", read_llama, llama_layers},
      {"gpt2", read_gpt2, gpt2_layers},
  };
  return table;
}

LayerInfo head_layer(const DecoderConfig& config, const std::string& embedding) {
  return {"lm_head",
          LayerKind::kHead,
          {{"lm_head.weight",
            {config.vocab_size, config.hidden_size},
            config.tie_word_embeddings ? embedding : ""}},
          {}};
}

}  // namespace detail

std::int64_t ParameterSpec::numel() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::int64_t LayerInfo::num_parameters() const {
  std::int64_t sum = 0;
  for (const ParameterSpec& parameter : parameters) sum += parameter.numel();
  return sum;
}

std::vector<std::string> LayerInfo::module_names() const {
  return modules.empty() ? std::vector<std::string>{name} : modules;
}

std::int64_t ModelSpec::num_parameters() const {
  std::int64_t sum = 0;
  for (const LayerInfo& layer : layers) {
    for (const ParameterSpec& parameter : layer.parameters) {
      if (parameter.tied_to.empty()) sum += parameter.numel();
    }
  }
  return sum;
}

ModelSpec outline_model_spec(int num_layers) {
  if (num_layers < 0 || num_layers > detail::kMaxLayers) {
    throw Error(ErrorKind::kUsage, "the number of layers is " + std::to_string(num_layers), {},
                "give a number from 0 to " + std::to_string(detail::kMaxLayers));
  }
  ModelSpec spec;
  spec.config.num_layers = num_layers;
  spec.layers.push_back({"model.embed_tokens", LayerKind::kEmbedding, {}, {}});
  for (int i = 0; i < num_layers; ++i) {
    spec.layers.push_back({"model.layers." + std::to_string(i), LayerKind::kDecoder, {}, {}});
  }
  spec.layers.push_back({"model.norm", LayerKind::kNorm, {}, {}});
  spec.layers.push_back({"lm_head", LayerKind::kHead, {}, {}});
  return spec;
}

ModelSpec parse_model_spec(const std::string& config_json, const std::string& file_name) {
  const nlohmann::json document = parse_config(config_json, file_name);
  const detail::ConfigReader config(document, file_name);
  if (is_family(document) && config.has("text_config")) {
    config.fail("text_config", "a language model inside another one's configuration is not built",
                "leave it out, or make it a config.json of its own");
  }
  ModelSpec spec = spec_of(config);
  spec.config_text = config_json;
  return spec;
}

ModelSpec read_model_spec(const std::string& path) {
  const std::string file = config_file(path);
  return parse_model_spec(read_text_file(file, kMaxConfigBytes), file);
}

ModelSpec read_language_model_spec(const std::string& path) {
  const std::string file = config_file(path);
  const std::string text = read_text_file(file, kMaxConfigBytes);
  const nlohmann::json document = parse_config(text, file);
  const auto nested = document.find("text_config");
  const bool is_nested = nested != document.end() && nested->is_object();
  if (!is_nested) return parse_model_spec(text, file);
  if (is_family(document)) {
    ModelSpec outer = spec_of(detail::ConfigReader(document, file));
    outer.config_text = text;
    return outer;
  }
  const nlohmann::json config = nested_config(document, *nested);
  ModelSpec spec = spec_of(detail::ConfigReader(config, file, "text_config."));
  for (LayerInfo& layer : spec.layers) {
    layer.name = move_under(layer.name);
    for (ParameterSpec& parameter : layer.parameters) {
      parameter.name = move_under(parameter.name);
      parameter.tied_to = move_under(parameter.tied_to);
    }
  }
  spec.config_text = text;
  return spec;
}

}  // namespace sluice
