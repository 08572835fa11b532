// Expert parallelism: the ranks that share the experts of a layer, and their exchanges of tokens.
//
// Every rank routes its own tokens. It sends each chosen token to the rank that holds the expert,
// and gets the expert's result back. No token is dropped. Ranks and experts without tokens take
// part in every exchange.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sluice/parts/group.h"
#include "sluice/parts/values.h"

namespace sluice::detail {

class ExpertGroup {
 public:
  ExpertGroup() = default;  // one rank holds all experts
  explicit ExpertGroup(Group group) : group_(std::move(group)) {}

  // Returns the stage's group while its modules are made, otherwise a group of one rank.
  static ExpertGroup current();

  const Group& group() const { return group_; }
  int degree() const { return group_ ? group_.size() : 1; }
  // Returns the range of experts that this rank holds. The degree divides their number.
  IndexRange own(std::int64_t num_experts) const;

 private:
  Group group_;
};

// Sets ExpertGroup::current() on this thread.
class ExpertGroupScope {
 public:
  explicit ExpertGroupScope(const ExpertGroup& experts);
  ~ExpertGroupScope();
  ExpertGroupScope(const ExpertGroupScope&) = delete;
  ExpertGroupScope& operator=(const ExpertGroupScope&) = delete;

 private:
  const ExpertGroup* outer_;
};

// The exchanges of one forward of a layer, and of its backward. Differentiable once.
class ExpertExchange : public torch::CustomClassHolder {
 public:
  // counts: rows that this rank sends to each expert
  ExpertExchange(ExpertGroup experts, const std::vector<std::int64_t>& counts);

  // Sends rows [N, D], sorted by expert, to the experts' ranks. Returns the rows that all ranks
  // send to this rank's experts, sorted by expert, then by sending rank. Call it first. Collective.
  static at::Tensor dispatch(const c10::intrusive_ptr<ExpertExchange>& exchange,
                             const at::Tensor& rows);
  // Sends results for the rows of dispatch() back. Returns the results for this rank's rows.
  static at::Tensor combine(const c10::intrusive_ptr<ExpertExchange>& exchange,
                            const at::Tensor& results);
  // Returns the rows of each expert of this rank.
  std::vector<std::int64_t> own_counts() const;

  // Without a graph, for the autograd functions.
  at::Tensor to_experts(const at::Tensor& rows);
  at::Tensor to_sources(const at::Tensor& rows) const;
  void set_backward();

 private:
  void receive_counts(const std::vector<at::Tensor>& counts);

  ExpertGroup experts_;
  std::vector<std::int64_t> counts_;                 // to each expert
  std::vector<std::int64_t> sent_;                   // to each rank
  std::vector<std::vector<std::int64_t>> received_;  // [sending rank][expert of this rank]
  std::string forward_place_, backward_of_;
};

}  // namespace sluice::detail
