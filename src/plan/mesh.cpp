#include "sluice/parts/layout.h"

#include <cstdint>
#include <limits>
#include <string>

#include "base/format.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::array<std::string_view, 7> kNames = {"pp", "dp_replicate", "dp_shard", "cp",
                                                    "tp", "ep",           "ep_shard"};

// ep_shard x ep covers the ranks along these axes, the last one fastest.
constexpr std::array kAxesOfExperts = {Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp};

constexpr std::size_t index_of(Axis axis) { return static_cast<std::size_t>(axis); }

bool is_of_experts(Axis axis) { return axis == Axis::kEp || axis == Axis::kEpShard; }

[[noreturn]] void refuse_mesh(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .remedy = remedy});
}

}  // namespace

std::string_view to_text(Axis axis) { return kNames[index_of(axis)]; }

Mesh::Mesh(const MeshSizes& sizes, const Order& order)
    : sizes_{sizes.pp, sizes.dp_replicate, sizes.dp_shard, sizes.cp, sizes.tp},
      strides_{},
      ep_(sizes.ep) {
  std::int64_t stride = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    if (is_of_experts(*axis) || strides_[index_of(*axis)] != 0) {
      refuse_mesh("the order of ranks names " + std::string(to_text(*axis)) +
                      (is_of_experts(*axis) ? "" : " twice"),
                  "name pp, dp_replicate, dp_shard, cp and tp once each");
    }
    if (size_at(*axis) < 1) {
      refuse_mesh(formatted("the mesh has {} ranks along {}", size_at(*axis), to_text(*axis)),
                  "give at least 1");
    }
    strides_[index_of(*axis)] = static_cast<int>(stride);
    stride *= size_at(*axis);
    if (stride > std::numeric_limits<int>::max()) {
      refuse_mesh("the mesh has more than 2147483647 ranks", "make an axis smaller");
    }
  }
  const int shared = sizes.dp_replicate * sizes.dp_shard * sizes.cp * sizes.tp;
  if (ep_ < 1 || shared % ep_ != 0) {
    refuse_mesh(
        formatted("ep = {} does not divide the {} ranks of dp_replicate x dp_shard x cp x tp", ep_,
                  shared),
        formatted("set ep to a divisor of {}", shared));
  }
}

int Mesh::num_ranks() const {
  int count = 1;
  for (const int size : sizes_) count *= size;
  return count;
}

int Mesh::size(Axis axis) const {
  if (axis == Axis::kEp) return ep_;
  if (axis == Axis::kEpShard) {
    return size_at(Axis::kDpReplicate) * size_at(Axis::kDpShard) * size_at(Axis::kCp) *
           size_at(Axis::kTp) / ep_;
  }
  return size_at(axis);
}

int Mesh::expert_position(int rank) const {
  int position = 0;
  for (const Axis axis : kAxesOfExperts) position = position * size(axis) + coordinate(rank, axis);
  return position;
}

int Mesh::coordinate(int rank, Axis axis) const {
  if (axis == Axis::kEp) return expert_position(rank) % ep_;
  if (axis == Axis::kEpShard) return expert_position(rank) / ep_;
  return rank / strides_[index_of(axis)] % size_at(axis);
}

int Mesh::rank_of(const MeshCoordinates& at) const {
  const std::array<int, 5> coordinates = {at.pp, at.dp_replicate, at.dp_shard, at.cp, at.tp};
  int rank = 0;
  for (std::size_t axis = 0; axis < coordinates.size(); ++axis)
    rank += coordinates[axis] * strides_[axis];
  return rank;
}

bool Mesh::is_first(int rank, AxisSet axes) const {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    const auto axis = static_cast<Axis>(i);
    if (axes.has(axis) && coordinate(rank, axis) != 0) return false;
  }
  return true;
}

std::vector<int> Mesh::group(int rank, Axis axis) const {
  std::vector<int> ranks;
  if (!is_of_experts(axis)) {
    const int stride = strides_[index_of(axis)];
    const int first = rank - coordinate(rank, axis) * stride;
    for (int i = 0; i < size(axis); ++i) ranks.push_back(first + i * stride);
    return ranks;
  }
  const auto stride_of = [&](Axis grid_axis) { return strides_[index_of(grid_axis)]; };
  int first = rank;
  for (const Axis axis : kAxesOfExperts) first -= coordinate(rank, axis) * stride_of(axis);
  const int here = expert_position(rank);
  const int step = axis == Axis::kEp ? 1 : ep_;
  const int begin = axis == Axis::kEp ? here - here % ep_ : here % ep_;
  for (int i = 0; i < size(axis); ++i) {
    int position = begin + i * step;
    int member = first;
    for (auto of = kAxesOfExperts.rbegin(); of != kAxesOfExperts.rend(); ++of) {
      member += position % size_at(*of) * stride_of(*of);
      position /= size_at(*of);
    }
    ranks.push_back(member);
  }
  return ranks;
}

}  // namespace sluice
