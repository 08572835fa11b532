// The published shapes of data rows: which fields a row's tokens come from.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "data/jsonl_row.h"
#include "data/sequence_source.h"

namespace sluice::data {

const char* name_of(RowShape shape);

// Throws Error(kUsage) unless `names` (DataOptions::fields) renames known fields of rows and
// messages, or some of `others`, to different names.
void check_field_names(const std::map<std::string, std::string>& names,
                       const std::vector<FieldOption>& others);

// Sets the options that `train_on` stands for. Throws Error(kUsage) for other words.
void set_counted_messages(const DataOptions& data, SourceOptions& options);

// Returns the role of a sharegpt turn: "user" for "human". Unknown names are returned unchanged.
std::string role_of_sharegpt(const std::string& from);

// Whether rows with these fields have a shape.
bool names_a_shape(const std::vector<std::string>& fields);

// Sets row.shape and row.used. Afterwards a sharegpt row has `messages`, and an alpaca row has
// `prompt` and `completion` as messages. The first complete shape counts in this order: input_ids,
// text, messages, prompt, sharegpt, alpaca.
void set_shape(JsonlRow& row);

// The prompt and answer that the Stanford Alpaca project writes for a row with instruction, input
// and output. Used for models without a chat format.
struct AlpacaText {
  std::string prompt, answer;
};
AlpacaText alpaca_text(const JsonlRow& row);

}  // namespace sluice::data
