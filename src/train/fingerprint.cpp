#include "train/fingerprint.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/content_hash.h"

namespace sluice {
namespace {

constexpr std::size_t kDigits = 15;
constexpr std::int64_t kElements = 64;

void add_row(ContentHash& hash, at::Tensor tensor, std::int64_t row) {
  tensor = tensor.select(0, row);
  while (tensor.dim() > 1) tensor = tensor.select(0, tensor.size(0) / 2);
  if (tensor.dim() == 1) tensor = tensor.narrow(0, 0, std::min(tensor.size(0), kElements));
  tensor = tensor.contiguous();
  hash.add(tensor.const_data_ptr(), static_cast<std::size_t>(tensor.nbytes()));
}

std::int64_t fingerprint_of(const at::Tensor& tensor, Compared compared) {
  if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != at::kStrided) return 0;
  ContentHash hash;
  for (const std::int64_t size : tensor.sizes()) hash.add(&size, sizeof(size));
  if (tensor.numel() > 0) {
    const at::Tensor detached = tensor.detach();
    if (compared == Compared::kAll) {
      const at::Tensor all = detached.contiguous();
      hash.add(all.const_data_ptr(), static_cast<std::size_t>(all.nbytes()));
    } else if (tensor.dim() == 0) {
      hash.add(detached.const_data_ptr(), detached.element_size());
    } else {
      for (const std::int64_t row : {std::int64_t{0}, tensor.size(0) / 2, tensor.size(0) - 1})
        add_row(hash, detached, row);
    }
  }
  // 0 would mean "not hashed"
  return std::stoll(hash.digits().substr(0, kDigits), nullptr, 16) | 1;
}

}  // namespace

std::vector<std::int64_t> fingerprint(const StepBatch& batch, Compared compared) {
  std::vector<std::int64_t> numbers;
  std::vector<std::pair<at::Tensor, std::int64_t>> before;
  for (std::size_t m = 0; m < batch.microbatches.size(); ++m) {
    if (compared == Compared::kSome && m > 0 && m + 1 < batch.microbatches.size()) continue;
    std::vector<std::pair<at::Tensor, std::int64_t>> own;
    for (const auto& [name, tensor] : batch.microbatches.at(m)) {
      const std::size_t i = own.size();
      const bool is_known = i < before.size() && before[i].first.is_same(tensor);
      own.emplace_back(tensor, is_known ? before[i].second : fingerprint_of(tensor, compared));
      numbers.push_back(own.back().second);
    }
    before = std::move(own);
  }
  return numbers;
}

bool fingerprints_match(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](std::int64_t x, std::int64_t y) { return x == 0 || y == 0 || x == y; });
}

}  // namespace sluice
