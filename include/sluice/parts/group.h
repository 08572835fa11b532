// A set of ranks and what they do together: gather, sum, exchange, broadcast, wait for each other.
//
// Owns: what a collective means: the order of results, sums, what its members must agree on.
// Does not own: how bytes move and when a wait gives up (GroupBackend, one for each kind of
// transport); the messages of the pipeline (transport.h).
//
// Invariants:
//  1. Members make the calls of a group in the same order. A call never waits: it returns a Work.
//     Works may be waited for in any order, another one on every member; a member whose Work is
//     dropped has taken part all the same.
//  2. Results are in the order of members(). A sum is ((t0 + t1) + t2) + ... element by element in
//     that order, or that of a balanced tree (SumOrder), in the dtype of the tensors: the same bits
//     on every member, in every run and over every backend, and all_reduce gives those of
//     reduce_scatter. Either order moves the same bytes.
//  3. Every wait ends, as those of Transport: by its result, by the deadline (Error kPeer naming
//     the ranks that are missing), or by abort (Error with the first failure).
//  4. When members call different things (another collective, another root, other shapes or dtypes
//     of what is summed), each of them gets Error(kInternal) naming ranks and calls.
//  5. A tensor that was given is not written to afterwards. A sum is in memory of its own, the
//     caller's; everything else may share storage with the giver's, and nobody writes to it.
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
  // There is nothing to wait for.
  static Work done() requires std::is_void_v<Result> {
    return Work([] {});
  }
  Work(Work&&) noexcept = default;
  Work& operator=(Work&&) noexcept = default;

  // In place of this one: what `next` makes of the result when it is waited for.
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

  // Once.
  Result wait() {
    if (!finish_) throw Error(ErrorKind::kInternal, {.what = "a collective was waited for twice"});
    return std::exchange(finish_, nullptr)();
  }

 private:
  std::function<Result()> finish_;
};

// How the terms of a sum are put together.
enum class SumOrder : std::uint8_t {
  kMembers,  // ((t0 + t1) + t2) + ...
  // A balanced binary tree: [b, e) is [b, b + (e - b) / 2) plus the rest. Members that have sums of
  // subtrees of as many slices each get the sum of all slices, whatever their number.
  kTree,
};

class Group {
 public:
  Group() = default;  // of nobody, as split() gives to a rank that joins none
  explicit Group(std::shared_ptr<GroupBackend> backend) : backend_(std::move(backend)) {}

  explicit operator bool() const { return backend_ != nullptr; }
  int rank() const;  // of this member within the group: 0 .. size() - 1
  int size() const;
  const std::vector<int>& members() const;  // their ranks in the transport, ascending

  // An undefined tensor may be given, and comes out as one. Shapes and dtypes may differ.
  Work<std::vector<at::Tensor>> all_gather(const at::Tensor& tensor) const;
  Work<std::vector<std::string>> all_gather(std::string bytes) const;
  // What member `root` gave; what the others give does not matter.
  Work<at::Tensor> broadcast(const at::Tensor& tensor, int root) const;
  Work<std::string> broadcast(std::string bytes, int root) const;
  // Piece i goes to member i. Undefined pieces, other shapes and dtypes: as in all_gather.
  Work<std::vector<at::Tensor>> all_to_all(std::vector<at::Tensor> pieces) const;

  // The sum over the members. Any dtype but bool; every member gives the same shape and dtype.
  Work<at::Tensor> all_reduce(const at::Tensor& tensor, SumOrder order = SumOrder::kMembers) const;
  // The sum over the members' pieces number rank(). Pieces of one member may differ in shape and
  // dtype; piece i has the same on all.
  Work<at::Tensor> reduce_scatter(std::vector<at::Tensor> pieces,
                                  SumOrder order = SumOrder::kMembers) const;

  Work<void> barrier() const;

  // Waits. Every member calls it, all groups of a run in one global order, before the first step.
  // Members that give the same color make a group; one that gives a negative color joins none.
  Group split(int color) const;

 private:
  const std::shared_ptr<GroupBackend>& backend() const;  // throws where there is none

  std::shared_ptr<GroupBackend> backend_;
};

}  // namespace sluice
