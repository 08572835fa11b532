// The tokenizer class that AutoTokenizer of transformers chooses for a directory.
// tests/oracle/check_tokenizer_files.py compares this with transformers 5.23.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace sluice::data {

enum class ClassKind {
  kAsFile,   // uses tokenizer.json unchanged; also for unknown names
  kRebuilt,  // replaces parts of it (rebuilt_class.h)
  kOther     // not supported
};
// `name` may end with "Fast".
ClassKind class_kind(std::string_view name);

// Inputs of the choice; "" if missing.
struct ClassChoice {
  std::string tokenizer_class;                                // in tokenizer_config.json
  std::string model_tokenizer_class, model_type, model_name;  // in config.json
  bool has_byte_level = false;  // whether tokenizer.json contains "ByteLevel"
};
struct ChosenClass {
  std::string name;        // "" means tokenizer.json unchanged
  bool is_forced = false;  // the model type overrides the class that a file names
};
ChosenClass choose_class(const ClassChoice& choice);

// Named special tokens, in the order in which they are added.
inline constexpr std::array<std::string_view, 7> kNamedTokens = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

}  // namespace sluice::data
