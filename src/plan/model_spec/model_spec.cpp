#include "sluice/model_spec.h"

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
  const std::string dtype = config.text(key, "");
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

}  // namespace

namespace detail {

const std::vector<Family>& families() {
  static const std::vector<Family> table = {
      {"llama", read_llama, llama_layers},
      {"gpt2", read_gpt2, gpt2_layers},
  };
  return table;
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

ModelSpec parse_model_spec(const std::string& config_json, const std::string& file_name) {
  const nlohmann::json document = parse_strict_json(config_json, file_name);
  if (!document.is_object()) {
    throw Error(ErrorKind::kInput, "a model configuration must be a JSON object", file_name);
  }
  const detail::ConfigReader config(document, file_name);
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
    throw Error(ErrorKind::kInput, "the model has more than 1e15 parameters", file_name,
                "check hidden_size, vocab_size and the number of layers");
  }
  spec.layers = family.layers(spec.config);
  spec.config_text = config_json;
  return spec;
}

ModelSpec outline_model_spec(int num_layers) {
  if (num_layers < 0 || num_layers > detail::kMaxLayers) {
    throw Error(ErrorKind::kUsage, "the number of layers must be between 0 and " +
                                       std::to_string(detail::kMaxLayers) + ", got " +
                                       std::to_string(num_layers));
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

ModelSpec read_model_spec(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code code;
  std::string file = path;
  if (fs::is_directory(path, code)) {
    file = (fs::path(path) / "config.json").string();
    if (!fs::exists(file, code)) {
      throw Error(ErrorKind::kInput, "the model folder has no config.json", path,
                  "name a Hugging Face model folder or a config.json");
    }
  } else if (!fs::exists(path, code)) {
    throw Error(ErrorKind::kInput, "no such file or folder", path,
                "name a Hugging Face model folder or a config.json");
  }
  return parse_model_spec(read_text_file(file, kMaxConfigBytes), file);
}

}  // namespace sluice
