#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "ops/kernels/levels.h"

namespace sluice::ops {

using Index = std::int64_t;

inline std::vector<const Kernels*> kernels_of_this_machine() {
  std::vector<const Kernels*> all;
  for (const CpuLevel level : {CpuLevel::kBase, CpuLevel::kAvx2, CpuLevel::kAvx512}) {
    if (level <= processor_level()) all.push_back(&kernels_of(level));
  }
  return all;
}

inline std::string name_of(const testing::TestParamInfo<const Kernels*>& info) {
  return std::string(info.param->name);
}

// Position of an array in its pages. At the end, any access behind the array ends the process. At
// the beginning, any access before it does. The third position is one float after the beginning.
enum class Place { kEnd, kBegin, kOdd };

class Memory {
 public:
  explicit Memory(std::size_t size, Place place = Place::kEnd) : size_(size) {
    const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    const std::size_t inner = (size * sizeof(float) + sizeof(float) + page - 1) / page * page;
    bytes_ = inner + 2 * page;
    void* const pages = mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    pages_ = static_cast<char*>(pages);
    mprotect(pages_ + page, inner, PROT_READ | PROT_WRITE);
    char* const begin = pages_ + page;
    if (place == Place::kEnd) data_ = reinterpret_cast<float*>(begin + inner) - size;
    if (place == Place::kBegin) data_ = reinterpret_cast<float*>(begin);
    if (place == Place::kOdd) data_ = reinterpret_cast<float*>(begin) + 1;
  }
  Memory(const std::vector<float>& values, Place place) : Memory(values.size(), place) {
    std::copy(values.begin(), values.end(), data_);
  }
  ~Memory() { munmap(pages_, bytes_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  float* data() { return data_; }
  std::vector<float> values() const { return {data_, data_ + size_}; }

 private:
  std::size_t size_, bytes_ = 0;
  char* pages_ = nullptr;
  float* data_ = nullptr;
};

inline std::vector<float> random_floats(Index size, unsigned seed, float scale = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(static_cast<std::size_t>(size));
  for (float& value : values) value = normal(generator);
  return values;
}

// Returns the largest difference divided by the largest reference value, or by least_scale if that
// is larger. Pass the size of the terms as least_scale if a value is a difference of larger terms,
// since all values of a small case may be near zero.
inline double distance(const std::vector<float>& found, const std::vector<double>& exact,
                       double least_scale = 0) {
  double difference = 0, scale = least_scale;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(found[i]) - exact[i]));
    scale = std::max(scale, std::abs(exact[i]));
    if (std::isnan(found[i]) != std::isnan(exact[i])) return INFINITY;
  }
  return scale > 0 ? difference / scale : difference;
}

inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

class KernelTest : public testing::TestWithParam<const Kernels*> {
 protected:
  const Kernels& kernels_ = *GetParam();
};

// Instantiates the tests of `Suite`, a KernelTest, for every instruction set of this machine.
#define SLUICE_AT_EVERY_LEVEL(Suite) \
  INSTANTIATE_TEST_SUITE_P(Every, Suite, testing::ValuesIn(kernels_of_this_machine()), name_of)

}  // namespace sluice::ops
