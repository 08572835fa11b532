// A RECV waits for its SEND, and a collective for all its ranks. In programs without transfers, a
// compute action waits for the neighbouring stage's. A SEND waits only if the transport has streams
// (streams.h).
#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/format.h"
#include "plan/action_kinds.h"
#include "plan/verify/verification.h"
#include "plan/wait_graph.h"

namespace sluice::detail {
namespace {

struct Place {
  std::int32_t rank, index;
};

struct Collective {
  int hub_rank = -1, hub_index = -1;        // first member
  std::vector<std::pair<int, int>> others;  // {rank, index} of the other members
};

class Waits {
 public:
  explicit Waits(const Verification& v)
      : v_(v),
        graph_(v.program.num_ranks()),
        collectives_(static_cast<std::size_t>(num_collectives(v.program))) {}

  const WaitGraph& build(Streams streams) {
    find_collectives();
    if (streams != Streams::kNone) find_sends_ahead(streams);
    for (rank_ = 0; rank_ < v_.program.num_ranks(); ++rank_) {
      const std::vector<Action>& row = v_.program.ranks[rank_];
      for (index_ = 0; index_ < static_cast<int>(row.size()); ++index_) add(row[index_]);
    }
    return graph_;
  }

 private:
  Collective* collective_of(const Action& action) {
    if (!is_collective(action.kind)) return nullptr;
    const int number = number_of(v_.program, action);
    return number >= 0 ? &collectives_[number] : nullptr;
  }

  void find_collectives() {
    for (int rank = 0; rank < v_.program.num_ranks(); ++rank) {
      const std::vector<Action>& row = v_.program.ranks[rank];
      for (int index = 0; index < static_cast<int>(row.size()); ++index) {
        Collective* collective = collective_of(row[index]);
        if (!collective) continue;
        if (collective->hub_rank < 0) {
          collective->hub_rank = rank;
          collective->hub_index = index;
        } else if (collective->hub_rank != rank &&
                   (collective->others.empty() || collective->others.back().first != rank)) {
          collective->others.emplace_back(rank, index);
        }
      }
    }
  }

  // A transfer waits for the transfers ahead of it on its stream. Stores, for each RECV, the SENDs
  // ahead of it or ahead of its SEND, unless the rank waits for them anyway.
  void find_sends_ahead(Streams streams) {
    ahead_.resize(static_cast<std::size_t>(v_.program.num_ranks()));
    for (rank_ = 0; rank_ < v_.program.num_ranks(); ++rank_) {
      std::unordered_map<int, Place> last;  // [stream]: where its previous transfer ends
      for (index_ = 0; index_ < static_cast<int>(v_.program.ranks[rank_].size()); ++index_) {
        const Action& action = v_.program.ranks[rank_][index_];
        if (!is_transfer(action.kind) || !in_range(action)) continue;
        const Action other = counterpart(v_.program, action);
        const int peer = v_.program.stage_map.rank_of(other.stage);
        const std::int32_t there =
            v_.instructions.find({other.stage, other.microbatch})[other.kind];
        if (peer < 0 || there < 0) continue;
        const Place end = is_recv(action.kind) ? Place{rank_, index_} : Place{peer, there};
        const auto [before, is_first] =
            last.try_emplace(streams == Streams::kPerPair ? peer : 0, end);
        if (is_first) continue;
        const bool is_over = before->second.rank == rank_ || before->second.rank == end.rank;
        if (!is_over) ahead_[end.rank][end.index].push_back(before->second);
        before->second = end;
      }
    }
  }

  // The first member of a collective waits for the others, which wait for it.
  void meet(const Collective& collective) {
    if (rank_ == collective.hub_rank) {
      if (index_ != collective.hub_index) return;
      for (const auto& [rank, index] : collective.others) {
        if (index > 0) graph_.add(rank_, index_, rank, index - 1);
      }
    } else {
      graph_.add(rank_, index_, collective.hub_rank, collective.hub_index);
    }
  }

  void add(const Action& action) {
    if (const Collective* collective = collective_of(action)) {
      meet(*collective);
    } else if (is_recv(action.kind) && in_range(action)) {
      const Action send = counterpart(v_.program, action);
      if (v_.program.stage_map.rank_of(send.stage) != rank_)
        wait_for(send.stage, v_.instructions.find({send.stage, send.microbatch})[send.kind]);
      if (ahead_.empty()) return;
      const auto ahead = ahead_[rank_].find(index_);
      if (ahead == ahead_[rank_].end()) return;
      for (const Place& place : ahead->second) {
        graph_.add(rank_, index_, place.rank, place.index);
      }
    } else if (!v_.with_transfers) {
      for_each_half(action, [&](const Action& half) { add_half(half); });
    }
  }

  void add_half(const Action& half) {
    if (!in_range(half)) return;
    const bool forward = half.kind == ActionKind::kForward;
    if (!forward && !makes_input_gradient(half.kind)) return;
    const int neighbour =
        v_.program.flow.source(channel_kind_of(half.kind), half.stage, half.microbatch);
    if (!exchanges(v_.program, half.stage, neighbour)) return;
    const InstructionIndices& there = v_.instructions.find({neighbour, half.microbatch});
    wait_for(neighbour, forward ? there[ActionKind::kForward] : there.input_gradient());
  }

  void wait_for(int stage, std::int32_t index) {
    if (index >= 0) graph_.add(rank_, index_, v_.program.stage_map.rank_of(stage), index);
  }

  bool in_range(const Action& action) const {
    return action.microbatch >= 0 && action.microbatch < v_.program.num_microbatches &&
           v_.program.stage_map.rank_of(action.stage) == rank_;
  }

  const Verification& v_;
  WaitGraph graph_;
  std::vector<Collective> collectives_;
  // [rank][index of a RECV]: instructions that end the SENDs ahead of it. Empty without streams.
  std::vector<std::unordered_map<std::int32_t, std::vector<Place>>> ahead_;
  int rank_ = 0, index_ = 0;
};

}  // namespace

bool check_deadlock(Verification& v, Streams streams, std::string_view deadlock) {
  Waits waits(v);
  const std::vector<WaitGraph::Stuck> circles = waits.build(streams).find_circles();
  std::vector<int> stuck_at(static_cast<std::size_t>(v.program.num_ranks()), -1);
  for (const WaitGraph::Stuck& stuck : circles) stuck_at[stuck.rank] = stuck.index;
  for (const WaitGraph::Stuck& stuck : circles) {
    const int there = stuck_at[stuck.other_rank];
    std::string reason =
        formatted("{}: waits for {} of rank {}", deadlock,
                  quote(v.program, stuck.other_rank, stuck.other_index), stuck.other_rank);
    if (there != stuck.other_index) {
      reason += ", which is stuck before it at " + quote(v.program, stuck.other_rank, there);
    }
    v.report(stuck.rank, stuck.index, std::move(reason));
  }
  return circles.empty();
}

}  // namespace sluice::detail
