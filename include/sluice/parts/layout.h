// Places stages on ranks, and ranks in a mesh with an axis per kind of parallelism.
//
// The grid is pp x dp_replicate x dp_shard x cp x tp. Ranks are numbered in a given order of the
// axes, the last one fastest. For experts, ep_shard x ep covers the ranks of dp_replicate x
// dp_shard x cp x tp, ep fastest.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

// kLoop: stage s is on rank s mod P. kV: ranks 0..P-1, then P-1..0, alternating.
enum class Placement { kLoop, kV };

class StageMap {
 public:
  static constexpr int kNowhere = -1;

  StageMap() = default;
  // ranks[s] is the rank of stage s, or kNowhere.
  StageMap(int num_ranks, std::vector<int> ranks)
      : num_ranks_(num_ranks), ranks_(std::move(ranks)) {}

  int num_ranks() const { return num_ranks_; }
  int num_stages() const { return static_cast<int>(ranks_.size()); }
  int rank_of(int stage) const {
    return stage < 0 || stage >= num_stages() ? kNowhere : ranks_[stage];
  }
  std::vector<int> stages_of(int rank) const;  // ascending
  int stages_per_rank() const;
  // The rank of every stage.
  const std::vector<int>& ranks() const { return ranks_; }
  bool is(Placement placement) const;

  friend bool operator==(const StageMap&, const StageMap&) = default;

 private:
  int num_ranks_ = 0;
  std::vector<int> ranks_;
};

// Throws Error(kUsage) unless num_stages is a positive multiple of num_ranks.
StageMap make_stage_map(Placement placement, int num_ranks, int num_stages);

enum class Axis : std::uint8_t {
  kPp,
  kDpReplicate,  // replicas with different data
  kDpShard,      // shards of the parameters
  kCp,
  kTp,
  kEp,       // different experts
  kEpShard,  // shards of the same experts
};

std::string_view to_text(Axis axis);

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
  int ep = 1;  // determines the size of ep_shard
};

struct MeshCoordinates {
  int pp = 0, dp_replicate = 0, dp_shard = 0, cp = 0, tp = 0;
};

class Mesh {
 public:
  using Order = std::array<Axis, 5>;
  static constexpr Order kDefaultOrder = {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp,
                                          Axis::kTp};

  Mesh() = default;
  // Throws Error(kUsage) for a size below 1, over 2^31-1 ranks, an `order` that lacks an axis, or
  // an ep that does not divide dp_replicate x dp_shard x cp x tp.
  explicit Mesh(const MeshSizes& sizes, const Order& order = kDefaultOrder);

  int num_ranks() const;
  int size(Axis axis) const;
  // Precondition of coordinate() and is_first(): 0 <= rank < num_ranks().
  int coordinate(int rank, Axis axis) const;
  // Precondition: each coordinate is in [0, size(axis)).
  int rank_of(const MeshCoordinates& at) const;
  // True if the rank's coordinates along all these axes are 0.
  bool is_first(int rank, AxisSet axes) const;
  // Returns `rank` and the ranks that differ from it only along this axis, by coordinate. Along ep,
  // ep_shard is fixed, but the coordinates of dp, cp and tp vary.
  std::vector<int> group(int rank, Axis axis) const;

  friend bool operator==(const Mesh&, const Mesh&) = default;

 private:
  int size_at(Axis grid_axis) const { return sizes_[static_cast<std::size_t>(grid_axis)]; }
  int expert_position(int rank) const;

  std::array<int, 5> sizes_ = {1, 1, 1, 1, 1};
  std::array<int, 5> strides_ = {1, 1, 1, 1, 1};
  int ep_ = 1;
};

}  // namespace sluice
