#include "layer/microbatch_lengths.h"

#include <utility>

namespace sluice::detail {
namespace {

thread_local const MicrobatchLengths* current_lengths = nullptr;

}  // namespace

MicrobatchLengths lengths_of(const Values& batch) {
  MicrobatchLengths lengths;
  for (const auto& [name, tensor] : batch) {
    for (auto dim = static_cast<std::int64_t>(lengths.size()); dim < tensor.dim(); ++dim)
      lengths.push_back(tensor.size(dim));
  }
  return lengths;
}

MicrobatchScope::MicrobatchScope(const MicrobatchLengths* lengths)
    : outer_(std::exchange(current_lengths, lengths)) {}

MicrobatchScope::~MicrobatchScope() { current_lengths = outer_; }

const MicrobatchLengths* MicrobatchScope::current() { return current_lengths; }

}  // namespace sluice::detail
