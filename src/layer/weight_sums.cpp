#include "layer/weight_sums.h"

#include <utility>

namespace sluice {
namespace {

thread_local WeightSums* current = nullptr;

}  // namespace

WeightSumsScope::WeightSumsScope(WeightSums* sums) : outer_(std::exchange(current, sums)) {}
WeightSumsScope::~WeightSumsScope() { current = outer_; }

WeightSums* current_weight_sums() { return current; }

}  // namespace sluice
