// A batch cut into microbatches.
//
// Owns: the names of inputs, and the cuts. Does not own: kinds of inputs (values.h). Thread-safety:
// values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sluice/model.h"
#include "sluice/parts/values.h"

namespace sluice {

class BatchSplit {
 public:
  // The split refers to both. Throws Error(kUsage) for names that Model::inputs does not have, or
  // that are missing and not optional, for lengths that differ, and for inputs that contradict
  // themselves.
  BatchSplit(const Inputs& inputs, const Model& model);

  // Throws Error(kUsage) unless count_rows() of a microbatch is its number of rows.
  void require_row_count() const;
  // Throws Error(kUsage) for an input that requires a gradient.
  void require_no_gradient() const;

  // The number of microbatches into which the batch can be cut, at most `most`: no more than it has
  // rows, and exactly as many as it is given for.
  int num_microbatches(int most) const;
  // [microbatch], each with all inputs in the order of the names. Precondition: num_microbatches()
  // allows as many.
  std::vector<Values> microbatches(int num_microbatches) const;

 private:
  struct Known {
    std::int64_t count = 0;
    std::string name;  // name of the input that decides it
  };
  void require_offsets_of_rows() const;
  void learn_rows(const std::string& name, std::int64_t rows);
  void learn_given(const std::string& name, std::int64_t count);

  const std::vector<std::string>& names_;
  std::vector<const Input*> inputs_;   // by name
  std::optional<Known> rows_, given_;  // facts of inputs that are cut; of given ones
};

}  // namespace sluice
