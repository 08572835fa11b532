#include "layer/weight_sums.h"

#include <utility>

namespace sluice {
namespace {

thread_local WeightSums* current_sums = nullptr;

}  // namespace

WeightSumsScope::WeightSumsScope(WeightSums* sums) : outer_(std::exchange(current_sums, sums)) {}
WeightSumsScope::~WeightSumsScope() { current_sums = outer_; }

WeightSums* current_weight_sums() { return current_sums; }

}  // namespace sluice
