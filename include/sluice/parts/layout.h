// The layout of a run: stages on the ranks of a pipeline, and ranks in a grid with a named axis for
// each way to share the work.
//
// The grid is pp x dp_replicate x dp_shard x cp x tp, numbered in a given order, the last axis
// fastest. Experts are spread over ranks that otherwise divide data: ep_shard x ep is another view
// of dp_replicate x dp_shard x cp, in this order, ep fastest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// The ranks of the stages.
//   loop: stage s on rank s mod P.
//   v:    ranks 0..P-1, then P-1..0, alternating (with 2 stages a rank: rank r has r and 2P-1-r).
enum class Placement { kLoop, kV };

class StageMap {
 public:
  static constexpr int kNowhere = -1;

  StageMap() = default;  // no ranks, no stages
  // ranks[s]: the rank of stage s, or kNowhere. verify() refuses ranks out of range.
  StageMap(int num_ranks, std::vector<int> ranks)
      : num_ranks_(num_ranks), ranks_(std::move(ranks)) {}

  int num_ranks() const { return num_ranks_; }
  int num_stages() const { return static_cast<int>(ranks_.size()); }
  // The rank of a stage; kNowhere also for a stage that does not exist.
  int rank_of(int stage) const {
    return stage < 0 || stage >= num_stages() ? kNowhere : ranks_[stage];
  }
  std::vector<int> stages_of(int rank) const;  // ascending
  // The largest number of stages on a rank.
  int stages_per_rank() const;
  // The rank of every stage, which files and configurations call stage_to_rank.
  const std::vector<int>& ranks() const { return ranks_; }
  // True if it equals the map that make_stage_map() returns for this placement.
  bool is(Placement placement) const;

  friend bool operator==(const StageMap&, const StageMap&) = default;

 private:
  int num_ranks_ = 0;
  std::vector<int> ranks_;
};

// Throws Error(kUsage) unless num_stages is a positive multiple of num_ranks.
StageMap make_stage_map(Placement placement, int num_ranks, int num_stages);

enum class Axis : std::uint8_t {
  kPp,           // stages
  kDpReplicate,  // copies of the parameters, each with other data
  kDpShard,      // shards of the parameters, each with other data
  kCp,           // parts of a sequence
  kTp,           // parts of a layer
  kEp,           // other experts
  kEpShard,      // shards of the same experts
};

// "pp", "dp_replicate", "dp_shard", "cp", "tp", "ep", "ep_shard".
std::string_view to_text(Axis axis);

// A set of axes.
class AxisSet {
 public:
  constexpr AxisSet() = default;
  constexpr AxisSet(std::initializer_list<Axis> axes) {
    for (const Axis axis : axes) bits_ = static_cast<std::uint8_t>(bits_ | bit(axis));
  }
  constexpr bool has(Axis axis) const { return (bits_ & bit(axis)) != 0; }
  constexpr bool empty() const { return bits_ == 0; }

  friend bool operator==(const AxisSet&, const AxisSet&) = default;

 private:
  static constexpr int bit(Axis axis) { return 1 << static_cast<int>(axis); }

  std::uint8_t bits_ = 0;
};

struct MeshSizes {
  int pp = 1, dp_replicate = 1, dp_shard = 1, cp = 1, tp = 1;
  int ep = 1;  // the size of ep_shard follows
};

struct MeshCoordinates {
  int pp = 0, dp_replicate = 0, dp_shard = 0, cp = 0, tp = 0;
};

class Mesh {
 public:
  using Order = std::array<Axis, 5>;
  static constexpr Order kDefaultOrder = {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp,
                                          Axis::kTp};

  Mesh() = default;  // one rank
  // Throws Error(kUsage) for a size below 1, for more than 2^31-1 ranks, for an order that does not
  // name each of the five axes once, and for ep that does not divide dp_replicate x dp_shard x cp.
  explicit Mesh(const MeshSizes& sizes, const Order& order = kDefaultOrder);

  int num_ranks() const;
  int size(Axis axis) const;
  // Precondition of coordinate() and is_first(): 0 <= rank < num_ranks().
  int coordinate(int rank, Axis axis) const;
  // The rank with these coordinates. Precondition: each is at least 0 and below the axis' size.
  int rank_of(const MeshCoordinates& at) const;
  // True if the rank's coordinates along all these axes are 0: of ranks that differ along these
  // axes alone, one is first.
  bool is_first(int rank, AxisSet axes) const;
  // `rank` and the ranks that differ from it in this coordinate alone, ordered by it, in the view
  // of the axis: along ep the coordinate of ep_shard is fixed, those of dp and cp are not.
  std::vector<int> group(int rank, Axis axis) const;

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  int size_at(Axis grid_axis) const { return sizes_[static_cast<std::size_t>(grid_axis)]; }
  int expert_position(int rank) const;

  std::array<int, 5> sizes_ = {1, 1, 1, 1, 1};    // by Axis
  std::array<int, 5> strides_ = {1, 1, 1, 1, 1};  // by Axis: step from a rank to the next along it
  int ep_ = 1;
};

}  // namespace sluice
