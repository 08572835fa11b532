#include "family/decoder_config.h"

#include <cmath>
#include <utility>

#include "base/format.h"
#include "base/nearest_name.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

// As in transformers, a negative padding_idx counts from the end.
std::int64_t read_padding_row(const ConfigReader& config, std::int64_t vocab_size,
                              std::optional<std::int64_t> absent) {
  const char* const key = "pad_token_id";
  std::optional<double> id = config.number(key);
  if (!id && !config.is_null(key) && absent) id = static_cast<double>(*absent);
  if (!id) return -1;
  const double size = static_cast<double>(vocab_size);
  if (*id != std::floor(*id) || *id < -size || *id >= size) {
    config.fail(key,
                "pad_token_id is not a token of the vocabulary of " + std::to_string(vocab_size),
                "write one of its numbers, or null");
  }
  const auto row = static_cast<std::int64_t>(*id);
  return row < 0 ? row + vocab_size : row;
}

}  // namespace

Activation read_activation(const ConfigReader& config, const std::string& key,
                           const std::string& usual) {
  const std::vector<std::pair<std::string, Activation>> table = {
      {"silu", Activation::kSilu},          {"swish", Activation::kSilu},
      {"gelu", Activation::kGelu},          {"gelu_python", Activation::kGelu},
      {"gelu_new", Activation::kGeluTanh},  {"gelu_pytorch_tanh", Activation::kGeluTanh},
      {"gelu_fast", Activation::kGeluTanh}, {"gelu_python_tanh", Activation::kGeluTanh},
      {"relu", Activation::kRelu}};
  const std::string name = config.text(key, usual);
  std::vector<std::string> known;
  for (const auto& [other, activation] : table) {
    if (other == name) return activation;
    known.push_back(other);
  }
  config.fail(key, "'" + name + "' is not implemented", suggest_name(name, known));
}

namespace {

void read_heads(const ConfigReader& config, const DecoderKeys& keys, DecoderConfig& out) {
  out.num_attention_heads = config.size_of({"num_attention_heads"}, keys.sizes.num_attention_heads);
  const bool is_null = config.is_null("num_key_value_heads");
  out.num_key_value_heads = config.size(
      "num_key_value_heads", is_null ? out.num_attention_heads
                                     : keys.num_key_value_heads.value_or(out.num_attention_heads));
  if (out.num_attention_heads % out.num_key_value_heads != 0) {
    config.fail(
        "num_key_value_heads",
        formatted("{} does not divide num_attention_heads = {}", out.num_key_value_heads,
                  out.num_attention_heads),
        config.has("num_key_value_heads")
            ? std::string("write a divisor: each key-value head serves equally many query heads")
            : formatted("add the field: without it the family has {}", out.num_key_value_heads));
  }
  const bool has_own_size = keys.head_dim || config.has("head_dim");
  if (out.hidden_size % out.num_attention_heads != 0 &&
      (keys.heads_divide_hidden_size || !has_own_size)) {
    config.fail(
        "num_attention_heads",
        formatted("{} does not divide hidden_size = {}", out.num_attention_heads, out.hidden_size),
        "write a divisor: all heads have equally many channels");
  }
  out.head_dim =
      config.size("head_dim", keys.head_dim.value_or(out.hidden_size / out.num_attention_heads));
  if (out.head_dim % 2 != 0) {
    config.fail("head_dim", std::to_string(out.head_dim) + " is odd",
                "rotary embedding rotates pairs: write an even number");
  }
  if (out.num_attention_heads * out.head_dim > kMaxDimension) {
    config.fail("head_dim",
                "num_attention_heads * head_dim is more than " + std::to_string(kMaxDimension),
                "check both");
  }
  out.rotary_dim = out.head_dim;
}

}  // namespace

DecoderConfig read_decoder_config(const ConfigReader& config, const DecoderKeys& keys) {
  DecoderConfig out;
  out.vocab_size = config.size_of({"vocab_size"}, keys.sizes.vocab_size);
  out.hidden_size = config.size_of({"hidden_size"}, keys.sizes.hidden_size);
  out.intermediate_size = config.size_of({"intermediate_size"}, keys.sizes.intermediate_size);
  out.num_layers = config.size_of({"num_hidden_layers"}, keys.sizes.num_layers, kMaxLayers);
  read_heads(config, keys, out);
  out.max_position_embeddings =
      config.size("max_position_embeddings", keys.max_position_embeddings);
  out.padding_row = read_padding_row(config, out.vocab_size, keys.pad_token_id);
  out.norm_eps = config.number(keys.norm_eps, keys.default_norm_eps, 0.0, 1.0);
  out.initializer_range = config.number("initializer_range", 0.02, 0.0, 1.0);
  out.activation = read_activation(config, keys.activation, keys.default_activation);
  out.tie_word_embeddings = config.flag("tie_word_embeddings", keys.tie_word_embeddings);
  out.attention_dropout = config.number("attention_dropout", 0.0, 0.0, 1.0);
  out.blocks.resize(static_cast<std::size_t>(out.num_layers));
  return out;
}

std::vector<bool> read_layer_types(const ConfigReader& config, std::int64_t num_layers) {
  const char* const key = "layer_types";
  const std::vector<std::string> known = {"full_attention", "sliding_attention"};
  std::vector<bool> has_window;
  for (const std::string& type : config.texts(key)) {
    const bool slides = type == "sliding_attention";
    if (!slides && type != "full_attention") {
      config.fail(key, "'" + type + "' is not implemented", suggest_name(type, known));
    }
    has_window.push_back(slides);
  }
  if (config.has(key) && has_window.size() != static_cast<std::size_t>(num_layers)) {
    config.fail(key, formatted("it has {} types for {} layers", has_window.size(), num_layers),
                "write one for every layer, or leave it out");
  }
  return has_window;
}

std::optional<std::int64_t> read_window(const ConfigReader& config,
                                        std::optional<std::int64_t> absent) {
  const char* const key = "sliding_window";
  if (config.is_null(key)) return std::nullopt;
  if (!config.has(key)) return absent;
  return config.size(key, 0);
}

void set_windows(DecoderConfig& out, const ConfigReader& config, std::optional<std::int64_t> window,
                 const std::vector<bool>& has_window) {
  const std::vector<bool> given = read_layer_types(config, out.num_layers);
  const std::vector<bool>& slides = config.has("layer_types") ? given : has_window;
  for (std::size_t i = 0; i < slides.size(); ++i) {
    if (!slides[i]) continue;
    if (!window) {
      config.fail("layer_types",
                  formatted("layer {} is of sliding_attention, but there is no window", i),
                  "set sliding_window (and use_sliding_window if the family has it)");
    }
    out.blocks.at(i).window = *window;
  }
}

}  // namespace sluice::detail
