// Chooses the class of transformers' AutoTokenizer (version 5.23:
// tests/oracle/check_tokenizer_files.py).
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace sluice::data {

enum class ClassKind {
  kAsFile,   // uses tokenizer.json unchanged; also unknown classes
  kRebuilt,  // replaces parts of it (rebuilt_class.h)
  kOther     // not supported
};
// `name` may end with "Fast".
ClassKind class_kind(std::string_view name);

struct ClassChoice {
  std::string tokenizer_class;                                // from tokenizer_config.json
  std::string model_tokenizer_class, model_type, model_name;  // from config.json
  bool has_byte_level = false;  // whether tokenizer.json contains "ByteLevel"
};
struct ChosenClass {
  std::string name;        // "" means tokenizer.json unchanged
  bool is_forced = false;  // the model type overrides the named class
};
ChosenClass choose_class(const ClassChoice& choice);

// In the order in which transformers adds new tokens.
inline constexpr std::array<std::string_view, 7> kNamedTokens = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

}  // namespace sluice::data
