// A field of numbers of a row of .jsonl, as the values of its JSON come one after the other.
//
// Owns: the numbers that a dtype can hold, one shape for all of an array, sizes. Does not own:
// reading JSON (jsonl_row.cpp), filling up what is as long as the tokens (batch_rows.h).
// Invariant: no more numbers are kept than the text has, nor than sizes that are known leave room
// for.
// Thread-safety: a value of one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/data.h"

namespace sluice::data {

// Throws Error(kUsage) for a dtype that rows have no numbers of, a size below kRowTokens, two
// fields of one name, and kRowTokens without tokens.
void check_fields(const std::vector<FieldOption>& fields, bool has_tokens);

// "float32[3, 8, any]".
std::string field_text(const FieldOption& field);

class FieldReader {
 public:
  // field: of check_fields(); outlives this.
  explicit FieldReader(const FieldOption& field);

  // The values of the field in their order. All throw Error(kInput) without a place for what the
  // field does not take.
  void start_array();
  void end_array();
  void boolean(bool value);
  void integer(std::int64_t value);
  void real(double value);
  // Refuses a value that is not a number: "null", "a string".
  [[noreturn]] void refuse(const std::string& found) const;

  bool takes_reals() const;
  bool is_complete() const { return is_complete_; }
  FieldValue take();  // precondition: is_complete()

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void count_element(const char* found);  // one more of the innermost open array
  void require_number_here(const char* found);
  void integer_in_range(std::int64_t value);

  const FieldOption& field_;
  FieldValue value_;
  std::vector<bool> is_known_;        // by dimension: value_.sizes has it
  std::vector<std::int64_t> counts_;  // lengths of the arrays that are open
  bool is_complete_ = false;
};

}  // namespace sluice::data
