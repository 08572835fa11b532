// Tokenizer classes of transformers with built-in settings. From tokenizer.json they read only
// vocabulary, merges, tokens and (except one) the post-processor.
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
  // stands for a setting's value.
  std::string_view parts;
  // Names and texts of special tokens, unless a file names others.
  std::vector<std::pair<std::string_view, std::string_view>> tokens;
  bool adds_prefix_space = false;
  bool takes_post_processor = true;
  bool resets_special = false;  // clears flags of special tokens
};

// Precondition: class_kind(name) is kRebuilt.
const RebuiltClass& rebuilt_class(std::string_view name);

// Replaces parts of `document`. `unknown` is the text of unk_token. Throws Error(kInput) for a
// malformed setting.
void rebuild(const RebuiltClass& by, const TokenizerSettings& settings, const std::string& unknown,
             Json& document);

}  // namespace sluice::data
