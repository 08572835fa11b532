// Collectives over a set of ranks: gather, sum, exchange, broadcast and barrier.
//
// All members make the same calls in the same order. They may wait for the returned Works in any
// order, or drop them. Results are in the order of members(). Sums add in the tensors' dtype and in
// SumOrder, so all members, runs and backends get the same bits. A wait ends with the result, at
// the deadline with Error(kPeer) that names the missing ranks, or after an abort with the first
// failure. If the members' calls differ, each throws Error(kInternal).
//
// Do not write to a tensor after passing it in. Results other than sums may share its storage, so
// do not write to them. A Group belongs to its rank's thread. Copies are the same group.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sluice/error.h"

namespace sluice {

class GroupBackend;

template <typename Result>
class [[nodiscard]] Work {
 public:
  explicit Work(std::function<Result()> finish) : finish_(std::move(finish)) {}
  static Work done() requires std::is_void_v<Result> {
    return Work([] {});
  }
  Work(Work&&) noexcept = default;
  Work& operator=(Work&&) noexcept = default;

  // Returns a Work whose result is next(result).
  template <typename Next>
  auto then(Next next) && {
    std::function<Result()> finish = std::exchange(finish_, nullptr);
    if constexpr (std::is_void_v<Result>) {
      using Out = std::invoke_result_t<Next>;
      return Work<Out>([finish = std::move(finish), next = std::move(next)]() -> Out {
        finish();
        return next();
      });
    } else {
      using Out = std::invoke_result_t<Next, Result>;
      return Work<Out>(
          [finish = std::move(finish), next = std::move(next)]() -> Out { return next(finish()); });
    }
  }

  // Waits for the result. Call it once.
  Result wait() {
    if (!finish_) throw Error(ErrorKind::kInternal, {.what = "a collective was waited for twice"});
    return std::exchange(finish_, nullptr)();
  }

 private:
  std::function<Result()> finish_;
};

enum class SumOrder : std::uint8_t {
  kMembers,  // ((t0 + t1) + t2) + ...
  // A balanced binary tree: [b, b + (e - b) / 2) plus the rest of [b, e). If every member passes
  // the sum of a subtree of equal size, the result does not depend on the number of members.
  kTree,
};

class Group {
 public:
  Group() = default;  // no members
  explicit Group(std::shared_ptr<GroupBackend> backend) : backend_(std::move(backend)) {}

  explicit operator bool() const { return backend_ != nullptr; }
  int rank() const;
  int size() const;
  const std::vector<int>& members() const;  // ranks in the transport, ascending

  // Members' tensors may differ in shape and dtype, or be undefined.
  Work<std::vector<at::Tensor>> all_gather(const at::Tensor& tensor) const;
  Work<std::vector<std::string>> all_gather(std::string bytes) const;
  Work<at::Tensor> broadcast(const at::Tensor& tensor, int root) const;
  Work<std::string> broadcast(std::string bytes, int root) const;
  // Sends piece i to member i. Pieces may differ like those of all_gather().
  Work<std::vector<at::Tensor>> all_to_all(std::vector<at::Tensor> pieces) const;

  // Tensors have one shape and any dtype except bool.
  Work<at::Tensor> all_reduce(const at::Tensor& tensor, SumOrder order = SumOrder::kMembers) const;
  // Sums piece rank() of all members. Only pieces of the same index must match.
  Work<at::Tensor> reduce_scatter(std::vector<at::Tensor> pieces,
                                  SumOrder order = SumOrder::kMembers) const;

  Work<void> barrier() const;

  // Waits for all members and returns the group of those with the same color, or none for a
  // negative color. Call it before the first step, in one global order for all groups of a run.
  Group split(int color) const;

 private:
  const std::shared_ptr<GroupBackend>& backend() const;

  std::shared_ptr<GroupBackend> backend_;
};

}  // namespace sluice
