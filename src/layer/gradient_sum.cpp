#include "layer/gradient_sum.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>

#include "plan/shard_tree.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using detail::ShardRange;

// No shard is selected, and sum_ is the sum of a finished subtree.
constexpr int kNone = -1;

// True if no other tensor uses the gradient's memory, except the base of a view.
bool is_alone(const at::Tensor& gradient) {
  if (gradient.use_count() != 1) return false;
  if (!gradient.is_view()) return gradient.storage().use_count() == 1;
  return gradient._base().use_count() == 1 && gradient.storage().use_count() == 2;
}

bool can_take_over(const at::Tensor& gradient, at::ScalarType dtype) {
  return gradient.scalar_type() == dtype && gradient.is_contiguous() && is_alone(gradient) &&
         gradient.storage().nbytes() ==
             static_cast<std::size_t>(gradient.numel()) * gradient.element_size();
}

// Returns the subtree of shards that has `part` as one of its two halves.
ShardRange parent_of(ShardRange part, int num_shards) {
  ShardRange tree{0, num_shards};
  while (true) {
    const int middle = tree.begin + tree.size() / 2;
    const ShardRange half =
        part.begin < middle ? ShardRange{tree.begin, middle} : ShardRange{middle, tree.end};
    if (half == part) return tree;
    tree = half;
  }
}

}  // namespace

ShardedSum::ShardedSum(const at::Tensor& parameter, std::string name)
    : name_(std::move(name)),
      parameter_(parameter),
      dtype_(parameter.scalar_type() == at::kBFloat16 || parameter.scalar_type() == at::kHalf
                 ? at::kFloat
                 : parameter.scalar_type()) {}

void ShardedSum::reserve() {
  if (sum_.defined() || !memory_.empty()) return;
  memory_.push_back(
      at::empty(parameter_.sizes(), parameter_.options().dtype(dtype_).requires_grad(false)));
}

std::vector<at::Tensor>::iterator ShardedSum::free_memory() {
  return std::find_if(memory_.begin(), memory_.end(), [&](const at::Tensor& memory) {
    return memory.sizes() == parameter_.sizes() && memory.scalar_type() == dtype_ &&
           is_alone(memory);
  });
}

void ShardedSum::add(const at::Tensor& gradient) {
  if (!gradient.defined()) return;
  if (gradient.layout() != at::kStrided) {
    throw Error(ErrorKind::kUsage, {.what = "the gradient of '" + name_ + "' is sparse",
                                    .remedy = "use dense gradients (sparse = false)"});
  }
  at::NoGradGuard no_grad;
  if (sum_.defined()) {
    sum_.add_(gradient);
    return;
  }
  if (const auto memory = free_memory();
      memory != memory_.end() && gradient.sizes() == parameter_.sizes()) {
    sum_ = std::move(*memory);
    memory_.erase(memory);
    sum_.copy_(gradient);
  } else if (can_take_over(gradient, dtype_)) {
    sum_ = gradient.tensor_data();
  } else {
    sum_ = at::empty(gradient.sizes(), gradient.options().dtype(dtype_).requires_grad(false));
    sum_.copy_(gradient);
  }
  count_sums();
}

std::pair<at::Tensor, bool> ShardedSum::add_in_place() {
  if (dtype_ != parameter_.scalar_type() || !parameter_.is_contiguous()) return {};
  if (sum_.defined()) {
    if (!sum_.is_contiguous()) return {};
    return {sum_, false};
  }
  if (const auto memory = free_memory(); memory != memory_.end()) {
    sum_ = std::move(*memory);
    memory_.erase(memory);
  } else {
    sum_ = at::empty(parameter_.sizes(), parameter_.options().dtype(dtype_).requires_grad(false));
  }
  count_sums();
  return {sum_, true};
}

void ShardedSum::count_sums() {
  const auto is_sum = [](const auto& subtree) { return subtree.second.sum.defined(); };
  num_sums_ = std::max(num_sums_, 1 + open_.size() +
                                      static_cast<std::size_t>(std::count_if(
                                          finished_.begin(), finished_.end(), is_sum)));
}

void ShardedSum::recycle(at::Tensor& sum) {
  if (!sum.defined()) return;
  at::Tensor memory = std::move(sum);
  sum.reset();
  // Uses of a tied parameter share the sum. Only the last owner recycles the memory.
  if (!is_alone(memory)) return;
  if (memory_.size() < num_sums_) {
    memory_.push_back(std::move(memory));
    return;
  }
  const auto held = std::find_if(memory_.begin(), memory_.end(),
                                 [](const at::Tensor& other) { return !is_alone(other); });
  if (held != memory_.end()) *held = std::move(memory);
}

void ShardedSum::clear() {
  if (selected_ == kNone) sum_.reset();
  recycle(sum_);
  for (auto& [shard, sum] : open_) recycle(sum);
  for (auto& [begin, subtree] : finished_) recycle(subtree.sum);
  open_.clear();
  finished_.clear();
  selected_ = shards_.begin;
}

void ShardedSum::set_shards(const OwnShards& shards) {
  shards_ = shards;
  selected_ = shards.begin;
}

void ShardedSum::select(int shard) {
  if (shard == selected_) return;
  if (sum_.defined() && selected_ != kNone) open_[selected_] = std::move(sum_);
  sum_.reset();
  selected_ = shard;
  const auto found = open_.find(shard);
  if (found == open_.end()) return;
  sum_ = std::move(found->second);
  open_.erase(found);
}

void ShardedSum::finish(int shard) {
  const ShardRange own{shards_.begin, shards_.end};
  if (own.size() == 1) return;
  at::NoGradGuard no_grad;
  ShardRange range{shard, shard + 1};
  select(shard);
  at::Tensor sum = std::exchange(sum_, {});
  while (range != own) {
    const ShardRange parent = parent_of(range, shards_.num_shards);
    if (parent.begin < own.begin || own.end < parent.end) break;
    const bool is_right = range.begin != parent.begin;
    const auto sibling = finished_.find(is_right ? parent.begin : range.end);
    if (sibling == finished_.end() || sibling->second.end != (is_right ? range.begin : parent.end))
      break;
    at::Tensor left = is_right ? std::move(sibling->second.sum) : std::move(sum);
    at::Tensor right = is_right ? std::move(sum) : std::move(sibling->second.sum);
    finished_.erase(sibling);
    if (left.defined() && right.defined()) left.add_(right);
    sum = left.defined() ? std::move(left) : std::move(right);
    recycle(right);
    range = parent;
  }
  if (range == own) {
    sum_ = std::move(sum);
    selected_ = own.begin;
    return;
  }
  sum_ = sum;
  selected_ = kNone;
  finished_[range.begin] = {range.end, std::move(sum)};
}

std::vector<at::Tensor> ShardedSum::partial_sums() const {
  const std::vector<ShardRange> subtrees =
      detail::largest_subtrees({shards_.begin, shards_.end}, shards_.num_shards);
  if (subtrees.size() == 1) return {sum_};
  std::vector<at::Tensor> sums;
  for (const ShardRange& subtree : subtrees) {
    const auto found = finished_.find(subtree.begin);
    sums.push_back(found == finished_.end() ? at::Tensor() : found->second.sum);
  }
  return sums;
}

void ShardedSum::replace(at::Tensor sum) {
  if (selected_ != kNone && !sum.is_same(sum_)) recycle(sum_);
  sum_.reset();
  for (auto& [begin, subtree] : finished_) {
    if (!subtree.sum.is_same(sum)) recycle(subtree.sum);
  }
  finished_.clear();
  sum_ = std::move(sum);
  selected_ = shards_.begin;
}

GradientSums make_sums(const std::vector<ParameterInfo>& parameters) {
  GradientSums sums;
  for (const ParameterInfo& parameter : parameters) {
    sums.push_back(parameter.tensor.requires_grad()
                       ? std::make_unique<ShardedSum>(parameter.tensor, parameter.name)
                       : nullptr);
  }
  return sums;
}

}  // namespace sluice
