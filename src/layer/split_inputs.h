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
  // Both arguments must outlive this object. Throws Error(kUsage) for unknown or missing names,
  // lengths that differ, and inconsistent inputs.
  BatchSplit(const Inputs& inputs, const Model& model);

  // Throws Error(kUsage) unless Model::count_rows() returns the number of rows of a microbatch.
  void require_row_count() const;
  void require_no_gradient() const;

  // Returns the number of microbatches to make: the number that the caller gave, otherwise at most
  // `most` and the number of rows.
  int num_microbatches(int most) const;
  std::vector<Values> microbatches(int num_microbatches) const;

 private:
  struct Known {
    std::int64_t count = 0;
    std::string name;  // the input that determines the count
  };
  void require_offsets_of_rows() const;
  void learn_rows(const std::string& name, std::int64_t rows);
  void learn_given(const std::string& name, std::int64_t count);

  const std::vector<std::string>& names_;
  std::vector<const Input*> inputs_;
  std::optional<Known> rows_, given_;
};

}  // namespace sluice
