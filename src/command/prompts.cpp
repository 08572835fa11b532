#include "command/prompts.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <utility>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/strict_json.h"
#include "base/text.h"
#include "command/fingerprints.h"
#include "command/inputs.h"
#include "data/special_tokens.h"
#include "layer/philox.h"
#include "model/model_maker.h"
#include "sluice/error.h"

namespace sluice {
namespace {

// Reads generation_config.json. Like transformers, falls back to the end tokens of config.json.
Json generation_settings(const RunConfig& config, const ModelSpec& spec) {
  const std::string file = model_directory(config) + "/generation_config.json";
  std::error_code unseen;
  if (!std::filesystem::exists(file, unseen)) {
    const Json model = model_of(spec.config_text);
    const Json* const end = model.find("eos_token_id");
    return end ? Json{{"eos_token_id", *end}} : Json::object();
  }
  Json settings = parse_strict_json(read_text(file, data::kMaxTokenizerBytes), file);
  if (settings.is_object()) return settings;
  throw Error(ErrorKind::kInput, {.what = "the file is not a JSON object",
                                  .where = file,
                                  .remedy = "copy the file of the model again"});
}

std::vector<std::int64_t> end_ids_in(const Json& settings) {
  std::vector<std::int64_t> ids;
  const Json* const ends = settings.find("eos_token_id");
  if (!ends) return ids;
  if (ends->is_number_integer()) ids.push_back(ends->integer());
  if (!ends->is_array()) return ids;
  for (const Json& id : ends->list())
    if (id.is_number_integer()) ids.push_back(id.integer());
  return ids;
}

// Warns of ignored settings that would change transformers' generate(do_sample=False).
std::string settings_warning(const Json& settings) {
  std::vector<std::string> names;
  const auto differs = [&](const char* name, const Json& neutral) {
    const Json* const value = settings.find(name);
    if (value && !value->is_null() && !(*value == neutral)) names.emplace_back(name);
  };
  for (const char* name : {"repetition_penalty", "encoder_repetition_penalty", "num_beams"})
    differs(name, Json(1));
  for (const char* name : {"no_repeat_ngram_size", "min_length", "min_new_tokens"})
    differs(name, Json(0));
  for (const char* name : {"suppress_tokens", "begin_suppress_tokens", "bad_words_ids",
                           "sequence_bias", "forced_bos_token_id", "forced_eos_token_id",
                           "exponential_decay_length_penalty", "guidance_scale"})
    differs(name, Json());
  if (names.empty()) return "";
  return formatted("generation_config.json sets {}, which is not followed", join(names, ", "));
}

// `extra` are inputs that follow from the text's length. `reads_labels`: a head with a labels input
// returns logits if the labels are empty.
Inputs inputs_of(const std::vector<std::int32_t>& ids, const ModelMaker& maker,
                 const std::vector<ValueSpec>& extra, bool reads_labels) {
  const at::Tensor ids_L = at::tensor(at::ArrayRef<std::int32_t>(ids), at::kInt);
  Inputs inputs = {{"input_ids", ids_L.to(at::kLong).unsqueeze(0)}};
  if (reads_labels) inputs.add("labels", Input::replicated({}));
  if (extra.empty()) return inputs;
  const auto length = static_cast<std::int64_t>(ids.size());
  for (const auto& [name, value] : maker.text_inputs(extra, length)) inputs.add(name, value);
  return inputs;
}

double uniform_at(std::uint64_t seed, std::size_t position) {
  const auto high = [](std::uint64_t bits) { return static_cast<std::uint32_t>(bits >> 32); };
  const auto low = [](std::uint64_t bits) { return static_cast<std::uint32_t>(bits); };
  const PhiloxCounter drawn =
      philox4x32({low(position), high(position), 0, 0}, {low(seed), high(seed)});
  constexpr double kOneIn32Bits = 1.0 / 4294967296.0;
  return (drawn[0] + drawn[1] * kOneIn32Bits) * kOneIn32Bits;
}

// `logits_V` are the last position's logits, equal on all ranks. If dividing by the temperature
// overflows, returns the most likely token.
std::int64_t drawn_token(const at::Tensor& logits_V, double temperature, double uniform) {
  const at::Tensor scaled_V = logits_V.to(at::kDouble).div(temperature);
  if (std::isinf(scaled_V.max().item<double>())) return logits_V.argmax().item<std::int64_t>();
  const at::Tensor sums_V = at::softmax(scaled_V, 0).cumsum(0).contiguous();
  const auto* const first = sums_V.const_data_ptr<double>();
  const auto* const last = first + sums_V.size(0);
  const auto* const found = std::upper_bound(first, last, uniform * last[-1]);
  return std::min(found, last - 1) - first;
}

std::int32_t next_token(Pipeline& pipeline, const std::vector<std::int32_t>& ids,
                        const ModelMaker& maker, const std::vector<ValueSpec>& extra,
                        bool head_has_loss, const SampleOptions& options) {
  const std::vector<Values> outputs =
      pipeline.predict(inputs_of(ids, maker, extra, head_has_loss), OutputRanks::kAll);
  const at::Tensor& logits_BLV = outputs.front().get(head_has_loss ? "loss" : "logits");
  const at::Tensor last_V =
      logits_BLV.select(0, 0).select(0, static_cast<std::int64_t>(ids.size()) - 1).to(at::kFloat);
  const std::int64_t token =
      options.temperature == 0
          ? last_V.argmax().item<std::int64_t>()
          : drawn_token(last_V, options.temperature, uniform_at(options.seed, ids.size()));
  return static_cast<std::int32_t>(token);
}

}  // namespace

Prompt::Prompt(const RunConfig& config, const ModelSpec& spec, std::string text,
               const SampleOptions& options)
    : maker_(&maker_of(config.kinds, spec)),
      extra_(spec.source->inputs_of_text()),
      head_has_loss_(spec.layers.back().computes_loss()),
      tokens_(text_options(config, spec)),
      text_(std::move(text)),
      ids_(tokens_.encode(text_, /*add_special_tokens=*/true)),
      options_(options),
      longest_(std::min(spec.max_positions.value_or(std::numeric_limits<std::int64_t>::max()),
                        spec.usual_positions.value_or(std::numeric_limits<std::int64_t>::max()))) {
  const Json settings = generation_settings(config, spec);
  end_ids_ = end_ids_in(settings);
  warning_ = settings_warning(settings);
  const auto refuse = [&](const std::string& what, const std::string& remedy) {
    throw Error(ErrorKind::kUsage, {.what = what, .where = "--prompt", .remedy = remedy});
  };
  const auto count = static_cast<std::int64_t>(ids_.size());
  if (count == 0) refuse("the prompt has no tokens", "give a text");
  if (count >= longest_) {
    refuse(formatted("the prompt has {}, but the model's sequences have at most {}",
                     counted(count, "token"), longest_),
           "give a shorter text");
  }
}

std::vector<std::string> Prompt::warnings() const {
  std::vector<std::string> all = tokens_.warnings();
  if (!warning_.empty()) all.push_back(warning_);
  return all;
}

std::int64_t Prompt::length() const {
  return std::min(longest_, static_cast<std::int64_t>(ids_.size()) + options_.tokens);
}

std::string Prompt::text_of(const std::vector<std::int32_t>& tokens) const {
  if (tokens_.is_bytes()) {
    std::string text;
    for (const std::int32_t id : tokens)
      if (id < 256) text += static_cast<char>(id);
    return text;
  }
  const Tokenizer& tokenizer = tokens_.tokenizer();
  std::vector<std::int32_t> known;  // the model's vocabulary may be larger than the tokenizer's
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(known),
               [&](std::int32_t id) { return !tokenizer.token_of(id).empty(); });
  return tokenizer.decode(known, /*skip_special_tokens=*/true);
}

Continuation Prompt::go_on(Pipeline& pipeline) const {
  Continuation result{.prompt = text_, .prompt_tokens = ids_, .ended = "tokens"};
  std::vector<std::int32_t> all = ids_;
  while (static_cast<std::int64_t>(result.tokens.size()) < options_.tokens) {
    if (static_cast<std::int64_t>(all.size()) >= longest_) {
      result.ended = "length";
      break;
    }
    const std::int32_t next = next_token(pipeline, all, *maker_, extra_, head_has_loss_, options_);
    all.push_back(next);
    result.tokens.push_back(next);
    if (std::find(end_ids_.begin(), end_ids_.end(), next) != end_ids_.end()) {
      result.ended = "end token";
      break;
    }
  }
  // Decode the whole text, because a token decoded alone may lose its leading space.
  const std::string before = text_of(ids_), whole = text_of(all);
  result.text = whole.starts_with(before) ? whole.substr(before.size()) : text_of(result.tokens);
  return result;
}

}  // namespace sluice
