// Computes symbolic numbers such as 2 * s0 from the sizes of a program's tensors. If s0 itself is
// no size, a size 2 * s0 becomes a variable.
//
// Threads may call numbers() at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "archive/exported_graph.h"

namespace sluice::detail {

class GraphSizes {
 public:
  GraphSizes(const GraphModule& module, const std::vector<const GraphInput*>& input_of,
             const std::vector<int>& reads, const std::vector<int>& held);

  // Returns the position in numbers(), or std::nullopt if sizes do not give the value.
  std::optional<std::size_t> find(const SizeExpression& expression);

  using Numbers = std::shared_ptr<const std::vector<std::int64_t>>;
  // Throws Error(kInput) if sizes, or dtypes of batch inputs, differ from the graph.
  Numbers numbers(const std::vector<at::Tensor>& read, const std::vector<at::Tensor>& held) const;

 private:
  struct Source {
    bool is_held = false;
    std::size_t tensor = 0;
    std::int64_t dim = 0;
  };
  struct Size {
    std::size_t read = 0;
    std::int64_t dim = 0;
    SizeExpression expression;
    std::int64_t constant = 0;
    std::optional<std::size_t> number;  // otherwise `constant`
  };
  struct Read {
    std::string name;
    std::int64_t num_dims = -1;  // -1 for a symbolic number
    std::string dtype;           // only for a batch input
    std::optional<at::ScalarType> type;
  };

  void add_variable(const SizeExpression& expression, Source source);
  std::optional<std::size_t> find_variable(const SizeExpression& expression) const;
  std::vector<std::int64_t> computed(const std::vector<std::int64_t>& variables) const;
  Numbers computed_once(std::vector<std::int64_t> variables) const;

  std::vector<Read> reads_;
  std::vector<Size> sizes_;
  // numbers() returns the values of `variables_`, then `derived_`.
  std::vector<SizeExpression> variables_;
  std::vector<Source> sources_;
  std::vector<SizeExpression> derived_;

  struct Seen {
    std::mutex mutex;
    std::vector<std::pair<std::vector<std::int64_t>, Numbers>> numbers;
    std::size_t next = 0;
  };
  std::unique_ptr<Seen> seen_ = std::make_unique<Seen>();
};

}  // namespace sluice::detail
