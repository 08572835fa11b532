#include <string>
#include <utility>

#include "base/format.h"
#include "layer/microbatch_lengths.h"
#include "parallel/slice_group_scope.h"
#include "plan/slices.h"
#include "sluice/error.h"
#include "sluice/parts/tensor_parallel.h"

namespace sluice {
namespace {

thread_local const SliceGroup* current_group = nullptr;

}  // namespace

detail::SliceGroupScope::SliceGroupScope(const SliceGroup& tp)
    : outer_(std::exchange(current_group, &tp)) {}

detail::SliceGroupScope::~SliceGroupScope() { current_group = outer_; }

SliceGroup SliceGroup::current() { return current_group ? *current_group : SliceGroup(); }

SliceGroup::SliceGroup(Group group, const TensorParallel& options, std::int64_t sequence_dim)
    : group_(std::move(group)), sequence_(options.sequence), sequence_dim_(sequence_dim) {
  detail::check_tensor_parallel(options);
  const int size = group_ ? group_.size() : 1;
  if (size != options.degree) {
    throw Error(ErrorKind::kUsage,
                {.what = formatted("tensor parallelism of degree {} does not fit a group of {}",
                                   options.degree, size),
                 .where = "SliceGroup",
                 .remedy = "give the group of the axis tp, and the options of the run"});
  }
  slices_ = detail::slices_of(group_ ? group_.rank() : 0, options);
}

SliceRange SliceGroup::slices_of(int member) const {
  const int each = slices_.size();
  return {member * each, (member + 1) * each, slices_.count};
}

bool SliceGroup::sequence_parallel() const {
  const detail::MicrobatchLengths* const lengths = detail::MicrobatchScope::current();
  const auto dim = static_cast<std::size_t>(sequence_dim_);
  if (!sequence_ || !lengths || dim >= lengths->size()) return sequence_;
  return (*lengths)[dim] % slices_.count == 0;
}

SliceGroup SliceGroup::with_sequence(bool on) const {
  SliceGroup other = *this;
  other.sequence_ = on;
  return other;
}

SliceGroup SliceGroup::of_call(std::string place) const {
  SliceGroup other = *this;
  other.sequence_ = sequence_parallel();
  other.call_ = std::move(place);
  return other;
}

IndexRange SliceGroup::range(std::int64_t length, int member) const {
  const detail::Cut cut = detail::cut_of(length, slices_of(member));
  return {cut.begin, cut.size()};
}

IndexRange SliceGroup::range(std::int64_t length) const {
  const detail::Cut cut = detail::cut_of(length, slices_);
  return {cut.begin, cut.size()};
}

}  // namespace sluice
