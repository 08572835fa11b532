// The sizes of a program's given tensors, read as values of symbols, and the check that the
// graph was exported for such sizes.
//
// Owns: where each symbol is read from, expressions over them, their values for the sizes that were
// seen last. Does not own: rules between sizes (check_rules.h).
//
// Sizes of one read that are no plain symbol, of symbols that no read has alone, are variables of
// their own: where such an expression comes again, it is that size.
// Thread-safety: numbers() may be called from several threads at once.
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
  // input_of: by value; nullptr: a node writes it.
  GraphSizes(const GraphModule& module, const std::vector<const GraphInput*>& input_of,
             const std::vector<int>& reads, const std::vector<int>& held);

  // The place in numbers() of an expression; nullopt: the sizes of what is given do not say it.
  std::optional<std::size_t> find(const SizeExpression& expression);

  using Numbers = std::shared_ptr<const std::vector<std::int64_t>>;
  // Throws Error(kInput) where the sizes of `read`, or the dtype of an input of the batch, are not
  // those of the graph.
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
    std::optional<std::size_t> number;  // without: the constant
  };
  struct Read {
    std::string name;            // for messages: "input 'input_ids'", "value 'linear_3'"
    std::int64_t num_dims = -1;  // -1: a symbolic number
    std::string dtype;           // of an input of the batch; else ""
    std::optional<at::ScalarType> type;
  };

  void add_variable(const SizeExpression& expression, Source source);
  std::optional<std::size_t> find_variable(const SizeExpression& expression) const;
  std::vector<std::int64_t> computed(const std::vector<std::int64_t>& variables) const;
  Numbers computed_once(std::vector<std::int64_t> variables) const;

  std::vector<Read> reads_;
  std::vector<Size> sizes_;
  // numbers() has the variables first, then the derived expressions.
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
