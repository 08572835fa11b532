// Classes of transformers with their own settings. They read only the vocabulary, merges, tokens
// and (except one) the post-processor of a tokenizer.json.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer/tokenizer_settings.h"

namespace sluice::data {

struct RebuiltClass {
  std::string_view name;
  // JSON that replaces "normalizer", "pre_tokenizer", "decoder" and "model" options. A word between
  // two @ stands for the setting of that name.
  std::string_view parts;
  // Special tokens, unless a file names others.
  std::vector<std::pair<std::string_view, std::string_view>> tokens;
  bool adds_prefix_space = false;  // default of the setting add_prefix_space
  bool takes_post_processor = true;
  bool resets_special = false;  // clears the special flags at the end
};

// Precondition: class_kind(name) is kRebuilt.
const RebuiltClass& rebuilt_class(std::string_view name);

// Replaces parts of `document`, a tokenizer.json. `unknown` is the text of unk_token. Throws
// Error(kInput) for a malformed setting.
void rebuild(const RebuiltClass& by, const TokenizerSettings& settings, const std::string& unknown,
             Json& document);

}  // namespace sluice::data
