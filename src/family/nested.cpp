#include "family/nested.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/strict_json.h"
#include "family/families.h"
#include "kind/hf_names.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

constexpr std::size_t kMaxNamesBytes = 100'000'000;  // limit for a header or an index
constexpr const char* kTies = "tie_word_embeddings";

struct Whole {
  const char* name;       // model_type of config.json
  const char* text_type;  // default model_type of text_config
  const char* inside;     // replaces the base model's prefix in names
  // Whether config.json ties the head's weight to the embedding by default. kAsText: the default of
  // the text model's family.
  enum { kNever, kAlways, kAsText } ties;
  // JSON defaults for text_config. Null: config.json has no text_config, so its top level has the
  // text model's fields.
  const char* usual_text = "{}";
};

constexpr const char* kLanguageModel = "model.language_model.";
constexpr const char* kIdeficsText = R"({"rms_norm_eps": 1e-5})";
constexpr const char* kMistral3Text =
    R"({"vocab_size": 131072, "hidden_size": 5120, "intermediate_size": 32768,
        "num_hidden_layers": 40, "head_dim": 128, "rms_norm_eps": 1e-5, "rope_theta": 1e9,
        "sliding_window": null})";
constexpr std::array kWholes = {
    Whole{"gemma3", "gemma3_text", kLanguageModel, Whole::kAlways},
    Whole{"idefics3", "llama", "model.text_model.", Whole::kNever, kIdeficsText},
    Whole{"internvl", "qwen2", kLanguageModel, Whole::kAlways},
    Whole{"llava", "llama", kLanguageModel, Whole::kAsText},
    Whole{"llava_next", "llama", kLanguageModel, Whole::kNever},
    Whole{"llava_onevision", "qwen2", kLanguageModel, Whole::kAsText},
    Whole{"mistral3", "mistral", kLanguageModel, Whole::kAlways, kMistral3Text},
    Whole{"qwen2_5_vl", "qwen2_5_vl_text", kLanguageModel, Whole::kAsText, nullptr},
    Whole{"qwen2_vl", "qwen2_vl_text", kLanguageModel, Whole::kAsText, nullptr},
    Whole{"qwen3_vl", "qwen3_vl_text", kLanguageModel, Whole::kNever},
    Whole{"smolvlm", "llama", "model.text_model.", Whole::kNever, kIdeficsText},
};

// A text_config that another family's reader accepts. Its three positions per token are equal for
// pure text.
struct Alias {
  const char* text_type;
  const char* family;
  const char* defaults;  // JSON defaults that differ from the family's
  double rope_theta;     // default of rope_theta
  bool reads_head_dim;   // false: always hidden_size / num_attention_heads
};
constexpr const char* kQwen2VlDefaults =
    R"({"vocab_size": 152064, "hidden_size": 8192, "intermediate_size": 29568,
        "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
        "rms_norm_eps": 1e-5, "max_window_layers": 80})";
constexpr std::array kAliases = {
    Alias{"qwen2_vl_text", "qwen2", kQwen2VlDefaults, 1e6, false},
    Alias{"qwen2_5_vl_text", "qwen2", kQwen2VlDefaults, 1e6, false},
    Alias{"qwen3_vl_text", "qwen3", R"({"max_position_embeddings": 128000})", 5e5, true}};

std::string type_of(const Json& document) {
  const Json& type = document.at("model_type");
  return type.is_string() ? type.text() : "";
}

const Whole* find_whole(const Json& document) {
  const std::string type = type_of(document);
  const auto found = std::find_if(kWholes.begin(), kWholes.end(),
                                  [&](const Whole& whole) { return type == whole.name; });
  return found == kWholes.end() ? nullptr : found;
}

bool has_text_config(const Json& document) { return document.at("text_config").is_object(); }

bool says(const Json& document, const char* key) { return !document.at(key).is_null(); }

void use_one_position(Json& config) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    if (!config.at(key).is_object()) continue;
    Json& rope = config[key];
    rope.erase("mrope_section");
    rope.erase("mrope_interleaved");
    for (const char* type : {"rope_type", "type"}) {
      if (rope.at(type) == "mrope") rope[type] = "default";
    }
  }
}

void become_family(Json& config, const Alias& alias) {
  config["model_type"] = alias.family;
  const Json defaults = *parse_json(alias.defaults);
  for (const auto& [key, value] : defaults.members()) {
    if (!config.contains(key)) config[key] = value;
  }
  if (!alias.reads_head_dim) config.erase("head_dim");
  use_one_position(config);
  const bool is_nested = config.at("rope_parameters").is_object();
  if (says(config, "rope_theta") || (is_nested && says(config.at("rope_parameters"), "rope_theta")))
    return;
  (is_nested ? config["rope_parameters"] : config)["rope_theta"] = alias.rope_theta;
}

bool ties_by_default(const Json& text) {
  const Family* family = find_family(type_of(text));
  if (!family || !family->decoder) return false;
  const Json nothing = *parse_json("{}");
  return family->decoder(ConfigReader(nothing, "text_config")).tie_word_embeddings;
}

// As in transformers 5.23. With kAsText, either object may tie the head. Otherwise only the outer
// object counts, with `whole.ties` as its default. `text` has the model_type of its family.
bool is_head_tied(const Json& document, const Json& text, const Whole& whole) {
  if (whole.ties == Whole::kAsText &&
      (says(text, kTies) ? text.at(kTies) == true : ties_by_default(text)))
    return true;
  if (says(document, kTies)) return document.at(kTies) == true;
  return whole.ties == Whole::kAlways;
}

Json text_of(const Json& document, const Whole* whole) {
  if (has_text_config(document)) return document.at("text_config");
  if (whole && whole->usual_text) return *parse_json(whole->usual_text);
  Json text = document;  // the first Qwen2-VL models have all fields in one object
  for (const char* key : {"vision_config", "text_config", "model_type"}) text.erase(key);
  return text;
}

struct Naming {
  std::string base, head;  // base replaces the base model's prefix, head precedes other names

  std::string operator()(const std::string& name, const std::string& base_prefix) const {
    if (name.empty()) return name;
    return name.starts_with(base_prefix) ? base + name.substr(base_prefix.size()) : head + name;
  }
};

// Known naming schemes, with `inside` first.
std::vector<Naming> namings(const std::string& inside, const std::string& base_prefix) {
  return {{inside, ""},
          {"language_model." + base_prefix, "language_model."},
          {kLanguageModel, ""},
          {"model.text_model.", ""},
          {base_prefix, ""}};
}

}  // namespace

bool is_supported_vision_language(const Json& document) { return find_whole(document) != nullptr; }

bool is_inside_vision_language(const std::string& config_text) {
  const std::optional<Json> document = parse_json(config_text);
  return document && find_whole(*document) != nullptr;
}

Json language_config(const Json& document) {
  const Whole* whole = find_whole(document);
  const bool is_family = find_family(type_of(document)) != nullptr;
  if (!whole && (is_family || !has_text_config(document))) return document;
  Json config = text_of(document, whole);
  for (const char* key : {"dtype", "torch_dtype", "quantization_config"}) {
    if (!config.contains(key) && document.contains(key)) config[key] = document.at(key);
  }
  if (!whole) {
    for (const char* key : {"hidden_size", "vocab_size"}) {
      if (says(document, key)) config[key] = document.at(key);
    }
    // Models of unknown type are only planned. Either object may tie their head.
    if (!config.contains(kTies) && document.contains(kTies)) config[kTies] = document.at(kTies);
    if (document.at(kTies) == true) config[kTies] = true;
    return config;
  }
  if (!says(config, "model_type")) config["model_type"] = whole->text_type;
  const auto alias = std::find_if(kAliases.begin(), kAliases.end(), [&](const Alias& known) {
    return type_of(config) == known.text_type;
  });
  if (alias != kAliases.end()) become_family(config, *alias);
  config[kTies] = is_head_tied(document, config, *whole);
  return config;
}

void require_bare_head(const ConfigReader& text) {
  const std::string family = text.text("model_type", "");
  const auto refuse = [&](const char* key, const std::string& what, const std::string& remedy) {
    text.fail(key, what + " inside a vision-language model are not implemented",
              remedy + ": transformers ignores the setting there");
  };
  constexpr const char* kCap = "final_logit_softcapping";
  constexpr double kLargest = std::numeric_limits<double>::max();
  if (family == "gemma2" && !text.is_null(kCap)) refuse(kCap, "capped logits", "write null");
  if (family == "gemma3_text" && text.has(kCap)) refuse(kCap, "capped logits", "write null");
  if (family == "granite" && text.number("logits_scaling", 1.0, -kLargest, kLargest) != 1.0)
    refuse("logits_scaling", "scaled logits", "write 1");
  const bool has_experts = family == "mixtral" || family == "olmoe" || family == "qwen3_moe";
  if (has_experts && text.flag("output_router_logits", false))
    refuse("output_router_logits", "load balancing losses", "write false");
}

std::set<std::string> stored_names(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code code;
  std::set<std::string> names;
  const std::string single = directory + "/model.safetensors",
                    index = directory + "/model.safetensors.index.json";
  Json names_of;
  if (fs::exists(single, code)) {
    const File file = File::open(single);
    std::array<unsigned char, 8> prefix{};
    if (file.size() < prefix.size()) return names;
    file.read(prefix.data(), prefix.size(), 0);
    std::uint64_t length = 0;
    for (std::size_t i = prefix.size(); i-- > 0;) length = length << 8 | prefix[i];
    // safetensors.h reports the broken file when it opens it.
    if (length > kMaxNamesBytes || length > file.size() - prefix.size()) return names;
    std::string header(length, '\0');
    file.read(header.data(), header.size(), prefix.size());
    names_of = parse_strict_json(header, single);
  } else if (fs::exists(index, code)) {
    const Json document = parse_strict_json(read_text(index, kMaxNamesBytes), index);
    names_of = document.at("weight_map");
  }
  if (!names_of.is_object()) return names;
  for (const auto& [name, place] : names_of.members()) names.insert(name);
  return names;
}

void name_as_stored(ModelSpec& model, const Json& document, const std::set<std::string>& stored) {
  const Whole* whole = find_whole(document);
  const std::string prefix(find_hf_names(model.family)->base_prefix);
  const std::vector<Naming> known = namings(whole ? whole->inside : kLanguageModel, prefix);
  // A name in the first block identifies the scheme. The name of a tied table may not.
  const std::string sample =
      model.layers.at(static_cast<std::size_t>(model.block_range().first)).parameters.at(0).name;
  const auto found = std::find_if(known.begin(), known.end(), [&](const Naming& naming) {
    return stored.contains(naming(sample, prefix));
  });
  const Naming& naming = found == known.end() ? known.front() : *found;
  for (LayerInfo& layer : model.layers) {
    layer.name = naming(layer.name, prefix);
    for (std::string& module : layer.modules) module = naming(module, prefix);
    for (ParameterSpec& parameter : layer.parameters) {
      parameter.name = naming(parameter.name, prefix);
      parameter.tied_to = naming(parameter.tied_to, prefix);
    }
  }
}

}  // namespace sluice::detail
