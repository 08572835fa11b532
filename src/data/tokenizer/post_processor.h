// The field "post_processor" of tokenizer.json: what is put before and after the ids of a text.
//
// Owns: the parts TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel and Sequence,
// for one text; what they do to pairs of texts and to offsets does not matter here. Thread-safety:
// values.
#pragma once

#include <cstdint>
#include <vector>

#include "data/tokenizer/json_field.h"

namespace sluice::data {

struct PostProcessor {
  // Throws Error(kInput) naming the field: malformed, a part that is not known.
  static PostProcessor read(const JsonField& field);

  std::vector<std::int32_t> before, after;
};

}  // namespace sluice::data
