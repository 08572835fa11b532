// Normal random numbers by element index: random words by counter (philox.h), then Box-Muller in
// double.
//
// Counter b gives elements 4b to 4b+3. Logarithm, sine and cosine are our own polynomials over +,
// -, *, / and sqrt, which IEEE 754 rounds exactly. With C library functions or fused multiply-add
// (off, see src/CMakeLists.txt), bits would depend on version and processor.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "base/key_hash.h"
#include "layer/philox.h"
#include "sluice/error.h"
#include "sluice/layer.h"
#include "sluice/parts/values.h"

namespace sluice {
namespace {

constexpr std::int64_t kTile = 512;
constexpr std::int64_t kTilesPerTask = 32;
constexpr std::int64_t kCopyElements = 1 << 24;
static_assert(kTile % 4 == 0);

struct Key {
  PhiloxKey key;
  std::uint32_t stream_low, stream_high;  // upper half of the counter
};

Key make_key(std::uint64_t seed, std::string_view name) {
  const std::uint64_t key = absorb(absorb(0, seed), hash_name(name));
  const std::uint64_t stream = absorb(key, hash_name(name));
  return {{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)},
          static_cast<std::uint32_t>(stream),
          static_cast<std::uint32_t>(stream >> 32)};
}

// Random words: words[w][b] is word w of counter first + b.
using Words = std::array<std::array<std::uint32_t, kTile / 4>, 4>;

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define SLUICE_FOR_EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define SLUICE_FOR_EACH_CPU
#endif

SLUICE_FOR_EACH_CPU
void philox_tile(const Key& key, std::uint64_t first, Words& words) {
  for (std::size_t b = 0; b < words[0].size(); ++b) {
    const std::uint64_t counter = first + b;
    const PhiloxCounter drawn =
        philox4x32({static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32),
                    key.stream_low, key.stream_high},
                   key.key);
    for (std::size_t w = 0; w < 4; ++w) words[w][b] = drawn[w];
  }
}

// Returns ln(u) for u = (word + 1/2) / 2^32. With u = m 2^e and m in [sqrt(1/2), sqrt(2)), ln m = 2
// atanh((m - 1) / (m + 1)). The argument is below 0.1716, so the tenth term is below 1e-16.
inline double log_of_uniform(std::uint32_t word) {
  const double u = (static_cast<double>(word) + 0.5) * 0x1p-32;
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(u);
  constexpr std::uint64_t kSqrtHalf = 0x3fe6a09e667f3bcdULL;
  const std::uint64_t shifted = bits - kSqrtHalf + 0x3ff0000000000000ULL;
  // Compute the exponent as a double, because AVX2 cannot convert 64-bit integers.
  const double e =
      std::bit_cast<double>((shifted >> 52) | 0x4330000000000000ULL) - (0x1p52 + 1023.0);
  const double m = std::bit_cast<double>((shifted & 0x000fffffffffffffULL) + kSqrtHalf);
  const double s = (m - 1.0) / (m + 1.0), z = s * s;
  double series = 1.0 / 19.0;
  for (const int k : {17, 15, 13, 11, 9, 7, 5, 3, 1}) series = series * z + 1.0 / k;
  return e * 0.693147180559945309417 + 2.0 * s * series;
}

// Taylor series for x in [-pi/4, pi/4]. The first omitted term is below 1e-15.
inline double sine(double x) {
  const double z = x * x;
  double series = 1.0;
  for (const double divisor :
       {14.0 * 15.0, 12.0 * 13.0, 10.0 * 11.0, 8.0 * 9.0, 6.0 * 7.0, 4.0 * 5.0, 2.0 * 3.0}) {
    series = 1.0 - series * z * (1.0 / divisor);
  }
  return x * series;
}
inline double cosine(double x) {
  const double z = x * x;
  double series = 1.0;
  for (const double divisor : {15.0 * 16.0, 13.0 * 14.0, 11.0 * 12.0, 9.0 * 10.0, 7.0 * 8.0,
                               5.0 * 6.0, 3.0 * 4.0, 1.0 * 2.0}) {
    series = 1.0 - series * z * (1.0 / divisor);
  }
  return series;
}

// Box-Muller transform. Two bits of the angle select the quadrant, thirty the position from its
// middle. A uniform angle may be rotated by a constant.
inline void normal_pair(std::uint32_t radius_word, std::uint32_t angle_word, double& first,
                        double& second) {
  const double radius = std::sqrt(-2.0 * log_of_uniform(radius_word));
  const double fraction = (static_cast<double>(angle_word & 0x3fffffffu) + 0.5) * 0x1p-30;
  const double angle = (fraction - 0.5) * 1.57079632679489661923;
  const double c = radius * cosine(angle), s = radius * sine(angle);
  const bool odd = (angle_word & 0x40000000u) != 0;
  const double sign = (angle_word & 0x80000000u) != 0 ? -1.0 : 1.0;
  first = sign * (odd ? -s : c);
  second = sign * (odd ? c : s);
}

SLUICE_FOR_EACH_CPU
void normal_tile(const Words& words, double mean, double std, double* tile) {
  for (std::size_t b = 0; b < words[0].size(); ++b) {
    double z0, z1, z2, z3;
    normal_pair(words[0][b], words[1][b], z0, z1);
    normal_pair(words[2][b], words[3][b], z2, z3);
    tile[4 * b] = mean + std * z0;
    tile[4 * b + 1] = mean + std * z1;
    tile[4 * b + 2] = mean + std * z2;
    tile[4 * b + 3] = mean + std * z3;
  }
}

// Sets out[i] to element first + i.
template <typename T>
void draw(T* out, std::int64_t first, std::int64_t count, const Key& key, double mean, double std) {
  const std::int64_t first_tile = first / kTile, end_tile = (first + count + kTile - 1) / kTile;
  at::parallel_for(first_tile, end_tile, kTilesPerTask, [&](std::int64_t begin, std::int64_t end) {
    Words words;
    std::array<double, kTile> tile;
    for (std::int64_t t = begin; t < end; ++t) {
      philox_tile(key, static_cast<std::uint64_t>(t) * (kTile / 4), words);
      normal_tile(words, mean, std, tile.data());
      const std::int64_t from = std::max(first, t * kTile),
                         to = std::min(first + count, (t + 1) * kTile);
      for (std::int64_t i = from; i < to; ++i) out[i - first] = static_cast<T>(tile[i - t * kTile]);
    }
  });
}

void draw_tensor(at::Tensor& host, std::int64_t first, const Key& key, double mean, double std) {
  if (host.scalar_type() == at::kDouble) {
    draw(host.mutable_data_ptr<double>(), first, host.numel(), key, mean, std);
  } else {
    draw(host.mutable_data_ptr<float>(), first, host.numel(), key, mean, std);
  }
}

}  // namespace

void keyed_normal_(at::Tensor& tensor, std::uint64_t seed, std::string_view name, double mean,
                   double std, std::int64_t offset) {
  if (!at::isFloatingType(tensor.scalar_type())) {
    throw Error(ErrorKind::kInternal,
                {.what = "normal numbers were asked for in " + dtype_name(tensor.scalar_type()),
                 .where = std::string(name)});
  }
  if (offset < 0)
    throw Error(ErrorKind::kInternal,
                {.what = "negative offset " + std::to_string(offset), .where = std::string(name)});
  const at::NoGradGuard no_grad;
  const Key key = make_key(seed, name);
  const at::ScalarType drawn_type = tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  if (tensor.device().is_cpu() && tensor.scalar_type() == drawn_type && tensor.is_contiguous()) {
    draw_tensor(tensor, offset, key, mean, std);
    return;
  }
  at::Tensor target = tensor.detach().contiguous();
  const at::Tensor flat = target.view({-1});
  for (std::int64_t begin = 0; begin < flat.numel(); begin += kCopyElements) {
    const std::int64_t count = std::min(kCopyElements, flat.numel() - begin);
    at::Tensor host = at::empty({count}, at::TensorOptions(drawn_type).device(at::kCPU));
    draw_tensor(host, offset + begin, key, mean, std);
    flat.narrow(0, begin, count).copy_(host);
  }
  if (!target.is_alias_of(tensor)) tensor.detach().copy_(target);
}

}  // namespace sluice
