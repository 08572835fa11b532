// A set of ranks and their collectives: gather, sum, exchange, broadcast, barrier.
//
// Invariants:
//  1. Members make the calls of a group in the same order. A call never waits: it returns a Work.
//     Works may be waited for in any order, which may differ between members; a member that drops
//     its Work has still taken part.
//  2. Results are in the order of members(). A sum is ((t0 + t1) + t2) + ... element by element in
//     that order, or that of a balanced tree (SumOrder), in the dtype of the tensors: the same bits
//     on every member, in every run and over every backend, and all_reduce gives those of
//     reduce_scatter. Either order moves the same bytes.
//  3. Every wait ends, as in Transport: by its result, by the deadline (Error kPeer naming the
//     ranks that are missing), or by abort (Error with the first failure).
//  4. When the calls of members differ (another collective, another root, other shapes or dtypes of
//     a sum; within a run another instruction, layer or module), each of them gets Error(kInternal)
//     naming ranks and calls.
//  5. No one may write to a tensor after giving it. A sum has its own memory, the caller's; all
//     other results may share storage with the giver's tensor and must not be written to.
// Thread-safety: a Group and its Works belong to one rank's thread. A copy is the same group.
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

// A collective on its way.
template <typename Result>
class [[nodiscard]] Work {
 public:
  explicit Work(std::function<Result()> finish) : finish_(std::move(finish)) {}
  // A Work with nothing to wait for.
  static Work done() requires std::is_void_v<Result> {
    return Work([] {});
  }
  Work(Work&&) noexcept = default;
  Work& operator=(Work&&) noexcept = default;

  // Replaces this Work by one whose result is next(result), computed when it is waited for.
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

  // May be called once.
  Result wait() {
    if (!finish_) throw Error(ErrorKind::kInternal, {.what = "a collective was waited for twice"});
    return std::exchange(finish_, nullptr)();
  }

 private:
  std::function<Result()> finish_;
};

// The order in which the terms of a sum are added.
enum class SumOrder : std::uint8_t {
  kMembers,  // ((t0 + t1) + t2) + ...
  // A balanced binary tree: [b, e) is [b, b + (e - b) / 2) plus the rest. If the members hold sums
  // of subtrees of equally many slices each, the result is the sum of all slices, whatever the
  // number of members.
  kTree,
};

class Group {
 public:
  Group() = default;  // no members, as split() returns to a rank that joins no group
  explicit Group(std::shared_ptr<GroupBackend> backend) : backend_(std::move(backend)) {}

  explicit operator bool() const { return backend_ != nullptr; }
  int rank() const;  // position of this member in the group: 0 .. size() - 1
  int size() const;
  const std::vector<int>& members() const;  // their ranks in the transport, ascending

  // An undefined tensor may be given, and comes out as one. Shapes and dtypes may differ.
  Work<std::vector<at::Tensor>> all_gather(const at::Tensor& tensor) const;
  Work<std::vector<std::string>> all_gather(std::string bytes) const;
  // The tensor or bytes of member `root`; those of the others are ignored.
  Work<at::Tensor> broadcast(const at::Tensor& tensor, int root) const;
  Work<std::string> broadcast(std::string bytes, int root) const;
  // Sends piece i to member i. Pieces may be undefined, and differ in shape and dtype, as in
  // all_gather.
  Work<std::vector<at::Tensor>> all_to_all(std::vector<at::Tensor> pieces) const;

  // The sum over the members. Any dtype but bool; every member gives the same shape and dtype.
  Work<at::Tensor> all_reduce(const at::Tensor& tensor, SumOrder order = SumOrder::kMembers) const;
  // The sum of the members' pieces with index rank(). Pieces of one member may differ in shape and
  // dtype; piece i has the same on all members.
  Work<at::Tensor> reduce_scatter(std::vector<at::Tensor> pieces,
                                  SumOrder order = SumOrder::kMembers) const;

  Work<void> barrier() const;

  // Divides the group, and waits for it. Every member calls it, for all groups of a run in one
  // global order, before the first step. Members that give the same color form a group; a member
  // that gives a negative color joins none.
  Group split(int color) const;

 private:
  const std::shared_ptr<GroupBackend>& backend() const;  // throws if there is none

  std::shared_ptr<GroupBackend> backend_;
};

}  // namespace sluice
