#include "train/fingerprint.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "base/content_hash.h"

namespace sluice {
namespace {

// FNV-1a, 64 bits (Fowler, Noll, Vo).
class Hash {
 public:
  void add(const void* bytes, std::size_t count) {
    const auto* byte = static_cast<const unsigned char*>(bytes);
    for (std::size_t i = 0; i < count; ++i) value_ = (value_ ^ byte[i]) * 0x100000001b3ULL;
  }
  // Never 0.
  std::int64_t value() const { return static_cast<std::int64_t>(value_ >> 1) | 1; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

constexpr std::int64_t kElements = 64;  // of the first, the middle and the last row

void add_row(Hash& hash, at::Tensor tensor, std::int64_t row) {
  tensor = tensor.select(0, row);
  while (tensor.dim() > 1) tensor = tensor.select(0, tensor.size(0) / 2);
  if (tensor.dim() == 1) tensor = tensor.narrow(0, 0, std::min(tensor.size(0), kElements));
  tensor = tensor.contiguous();
  hash.add(tensor.const_data_ptr(), static_cast<std::size_t>(tensor.nbytes()));
}

void add_all(Hash& hash, const at::Tensor& tensor) {
  const at::Tensor bytes = tensor.contiguous();
  const std::string digits =
      content_hash({static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes()});
  hash.add(digits.data(), digits.size());
}

std::int64_t fingerprint_of(const at::Tensor& tensor, Compared compared) {
  if (!tensor.defined() || !tensor.is_cpu() || tensor.layout() != at::kStrided) return 0;
  Hash hash;
  for (const std::int64_t size : tensor.sizes()) hash.add(&size, sizeof(size));
  if (tensor.numel() > 0) {
    const at::Tensor detached = tensor.detach();
    if (compared == Compared::kAll) {
      add_all(hash, detached);
    } else if (tensor.dim() == 0) {
      hash.add(detached.const_data_ptr(), detached.element_size());
    } else {
      for (const std::int64_t row : {std::int64_t{0}, tensor.size(0) / 2, tensor.size(0) - 1})
        add_row(hash, detached, row);
    }
  }
  return hash.value();
}

}  // namespace

std::vector<std::int64_t> fingerprint(const StepBatch& batch, Compared compared) {
  std::vector<std::int64_t> numbers;
  std::vector<std::pair<at::Tensor, std::int64_t>> before;  // what is replicated is read once
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

bool may_be_same(const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](std::int64_t x, std::int64_t y) { return x == 0 || y == 0 || x == y; });
}

}  // namespace sluice
