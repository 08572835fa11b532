// Classes of transformers that take of a tokenizer.json the vocabulary, the merges, the tokens and,
// but for one, the post-processor, and bring everything else along.
//
// Owns: what they bring along. Does not own: which class it is (transformers_classes.h), tokens
// that files declare (declared_tokens.h). Thread-safety: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/tokenizer/tokenizer_settings.h"

namespace sluice::data {

struct RebuiltClass {
  std::string_view name;
  // JSON of "normalizer", "pre_tokenizer", "decoder" and of options of "model" that are not null or
  // false; words between two @ stand for settings.
  std::string_view parts;
  // The special tokens that it has where no file says which.
  std::vector<std::pair<std::string_view, std::string_view>> tokens;
  bool adds_prefix_space = false;  // where no file says it
  bool takes_post_processor = true;
  bool resets_special = false;  // special tokens lose their flags in the end
};

// Precondition: class_kind(name) is kRebuilt.
const RebuiltClass& rebuilt_class(std::string_view name);

// Puts what the class brings along into the place of what `document`, a tokenizer.json, has. Throws
// Error(kInput) naming a setting that is malformed. unknown: the text of unk_token.
void rebuild(const RebuiltClass& by, const TokenizerSettings& settings, const std::string& unknown,
             Json& document);

}  // namespace sluice::data
