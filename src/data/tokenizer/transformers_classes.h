// The class of transformers that AutoTokenizer takes for a directory. Compared with
// transformers 5.23 by tests/oracle/check_tokenizer_files.py.
//
// Owns: the table of classes and of the model types that they are registered for.
// Does not own: the effect of a class on a tokenizer.json (rebuilt_class.h).
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace sluice::data {

enum class ClassKind {
  kAsFile,   // takes tokenizer.json as it is; so are names that transformers does not know
  kRebuilt,  // takes its vocabulary, merges and tokens: rebuilt_class.h
  kOther     // does what is not followed here
};
// name: with or without "Fast" at its end.
ClassKind class_kind(std::string_view name);

// The facts that decide about the class; "" for what no file says.
struct ClassChoice {
  std::string tokenizer_class;                                // key of tokenizer_config.json
  std::string model_tokenizer_class, model_type, model_name;  // keys of config.json
  bool has_byte_level = false;  // the word "ByteLevel" stands in tokenizer.json
};
struct ChosenClass {
  std::string name;        // "" for tokenizer.json as it is
  bool is_forced = false;  // by the model type, whatever class a file names
};
ChosenClass choose_class(const ClassChoice& choice);

// The named special tokens that every class has, in the order in which new ones are added.
inline constexpr std::array<std::string_view, 7> kNamedTokens = {
    "bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token"};

}  // namespace sluice::data
