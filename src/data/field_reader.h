// Builds one numeric field of a .jsonl row from JSON values. Memory is bounded by the row's text
// and the field's known sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sluice/data.h"

namespace sluice::data {

// Throws Error(kUsage) for an unsupported or repeated field, and for the size kRowTokens if rows
// have no tokens.
void check_fields(const std::vector<FieldOption>& fields, bool has_tokens);

// Returns text such as "float32[3, 8, any]".
std::string field_text(const FieldOption& field);

class FieldReader {
 public:
  // `field` must have passed check_fields() and must outlive this object.
  explicit FieldReader(const FieldOption& field);

  // Call these in order of the field's JSON values. They throw Error(kInput), without file and
  // line, for unsuitable values.
  void start_array();
  void end_array();
  void boolean(bool value);
  void integer(std::int64_t value);
  void real(double value);
  [[noreturn]] void refuse(const std::string& found) const;

  bool takes_reals() const;
  bool is_complete() const { return is_complete_; }
  FieldValue take();  // precondition: is_complete()

 private:
  [[noreturn]] void fail(const std::string& what) const;
  void count_element(const char* found);
  void require_number_here(const char* found);
  void integer_in_range(std::int64_t value);

  const FieldOption& field_;
  FieldValue value_;
  std::vector<bool> is_known_;
  std::vector<std::int64_t> counts_;  // elements so far in each open array
  bool is_complete_ = false;
};

}  // namespace sluice::data
