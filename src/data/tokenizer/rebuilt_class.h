// Tokenizer classes of transformers that have built-in settings. From tokenizer.json they read only
// the vocabulary, merges, tokens and (with one exception) the post-processor.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer/tokenizer_settings.h"

namespace sluice::data {

struct RebuiltClass {
  std::string_view name;
  // JSON that replaces "normalizer", "pre_tokenizer", "decoder" and options of "model". @NAME@
  // stands for the value of the setting NAME.
  std::string_view parts;
  // Names and default texts of special tokens. Files may name other texts.
  std::vector<std::pair<std::string_view, std::string_view>> tokens;
  bool adds_prefix_space = false;  // default of the setting add_prefix_space
  bool takes_post_processor = true;
  // Clears the special flags of all tokens at the end.
  bool resets_special = false;
};

// Precondition: class_kind(name) is kRebuilt.
const RebuiltClass& rebuilt_class(std::string_view name);

// Applies the class to `document`, a parsed tokenizer.json. `unknown` is the text of unk_token.
// Throws Error(kInput) for a malformed setting.
void rebuild(const RebuiltClass& by, const TokenizerSettings& settings, const std::string& unknown,
             Json& document);

}  // namespace sluice::data
