// SIMD vectors for the kernels. Kernel headers are compiled once per instruction set, with
// SLUICE_KERNEL_FLOATS 16, 8 or 4. All functions have internal linkage and call no standard library
// functions, so that the linker cannot share one instruction set's copy.
#pragma once

#include <cstdint>
#include <cstring>
#if SLUICE_KERNEL_FLOATS > 4
#include <immintrin.h>
#endif

namespace sluice::ops {
namespace {

using Index = std::int64_t;
constexpr int kFloats = SLUICE_KERNEL_FLOATS;

typedef float Floats __attribute__((vector_size(4 * SLUICE_KERNEL_FLOATS)));
typedef std::uint32_t Bits __attribute__((vector_size(4 * SLUICE_KERNEL_FLOATS)));
typedef float FloatsInMemory
    __attribute__((vector_size(4 * SLUICE_KERNEL_FLOATS), aligned(4), may_alias));
typedef float Four __attribute__((vector_size(16)));
typedef float FourInMemory __attribute__((vector_size(16), aligned(4), may_alias));

constexpr float kLowest = -3.402823466e+38f;

inline Floats load(const float* p) { return *reinterpret_cast<const FloatsInMemory*>(p); }
inline void store(float* p, Floats v) { *reinterpret_cast<FloatsInMemory*>(p) = v; }
inline Floats all(float value) { return value - Floats{}; }  // also correct for -0
inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }
inline Index least(Index a, Index b) { return a < b ? a : b; }
inline Index most(Index a, Index b) { return a > b ? a : b; }

// Load or store the first n elements, 0 < n < kFloats. Others read as 0 and are not written.
#if SLUICE_KERNEL_FLOATS == 16
inline __mmask16 first(int n) { return static_cast<__mmask16>((1U << n) - 1); }
inline Floats load_first(const float* p, int n) { return _mm512_maskz_loadu_ps(first(n), p); }
inline void store_first(float* p, Floats v, int n) { _mm512_mask_storeu_ps(p, first(n), v); }
inline Floats keep_first(Floats v, int n, Floats others) {
  return _mm512_mask_mov_ps(others, first(n), v);
}
inline Floats square_root(Floats v) { return _mm512_maskz_sqrt_ps(0xffff, v); }
#elif SLUICE_KERNEL_FLOATS == 8
inline __m256i first(int n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Floats load_first(const float* p, int n) { return _mm256_maskload_ps(p, first(n)); }
inline void store_first(float* p, Floats v, int n) { _mm256_maskstore_ps(p, first(n), v); }
inline Floats keep_first(Floats v, int n, Floats others) {
  return _mm256_blendv_ps(others, v, _mm256_castsi256_ps(first(n)));
}
inline Floats square_root(Floats v) { return _mm256_sqrt_ps(v); }
#else
inline Floats load_first(const float* p, int n) {
  Floats v{};
  for (int i = 0; i < n; ++i) v[i] = p[i];
  return v;
}
inline void store_first(float* p, Floats v, int n) {
  for (int i = 0; i < n; ++i) p[i] = v[i];
}
inline Floats keep_first(Floats v, int n, Floats others) {
  for (int i = n; i < kFloats; ++i) v[i] = others[i];
  return v;
}
inline Floats square_root(Floats v) {
  for (int i = 0; i < kFloats; ++i) v[i] = __builtin_sqrtf(v[i]);
  return v;
}
#endif

// With Whole and Rest, each_vector() lets kernels use one body for whole vectors and the rest of a
// row.
struct Whole {
  static Floats read(const float* p) { return load(p); }
  static void write(float* p, Floats v) { store(p, v); }
  static Floats keep(Floats v, Floats) { return v; }
};
struct Rest {
  int n;
  Floats read(const float* p) const { return load_first(p, n); }
  void write(float* p, Floats v) const { store_first(p, v, n); }
  Floats keep(Floats v, Floats others) const { return keep_first(v, n, others); }
};

template <class Body>  // body(index of the first element, Whole or Rest)
inline void each_vector(Index size, Body body) {
  Index i = 0;
  for (; i + kFloats <= size; i += kFloats) body(i, Whole{});
  if (i < size) body(i, Rest{static_cast<int>(size - i)});
}

inline float sum(Four v) { return (v[0] + v[2]) + (v[1] + v[3]); }
inline float largest(Four v) {
  const float a = v[0] > v[2] ? v[0] : v[2], b = v[1] > v[3] ? v[1] : v[3];
  return a > b ? a : b;
}
#if SLUICE_KERNEL_FLOATS > 4
typedef float Eight __attribute__((vector_size(32)));
struct HalvesOfEight {
  Four low, high;
};
inline HalvesOfEight halves(Eight v) {
  return {__builtin_shufflevector(v, v, 0, 1, 2, 3), __builtin_shufflevector(v, v, 4, 5, 6, 7)};
}
inline float sum(Eight v) { return sum(halves(v).low + halves(v).high); }
inline float largest(Eight v) {
  const Four a = halves(v).low, b = halves(v).high;
  return largest(a > b ? a : b);
}
#endif
#if SLUICE_KERNEL_FLOATS == 16
struct HalvesOfSixteen {
  Eight low, high;
};
inline HalvesOfSixteen halves(Floats v) {
  return {__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7),
          __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15)};
}
inline float sum(Floats v) { return sum(halves(v).low + halves(v).high); }
inline float largest(Floats v) {
  const Eight a = halves(v).low, b = halves(v).high;
  return largest(a > b ? a : b);
}
#endif

// Sums term(index, Whole or Rest). Four partial sums hide the latency of additions.
template <class Term>
inline float sum_of(Index size, Term term) {
  Floats sums[4] = {};
  Index i = 0;
  for (; i + 4 * kFloats <= size; i += 4 * kFloats) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) sums[j] += term(i + j * kFloats, Whole{});
  }
  for (; i + kFloats <= size; i += kFloats) sums[0] += term(i, Whole{});
  if (i < size) sums[1] += term(i, Rest{static_cast<int>(size - i)});
  return sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// e^x for x <= 88, within 2 ulp, by Cody and Waite's reduction. Returns 0 below -87, because
// denormals would slow down later products.
inline Floats exp_of(Floats x) {
  const Floats low = all(-87.0f), y = x < low ? low : x;
  const Floats shifted = y * 1.44269504f + 12582912.0f,
               n = shifted - 12582912.0f;  // round(y / ln 2)
  const Floats r = (y - n * 0.693359375f) + n * 2.12194440e-4f;
  Floats p = r * 1.39505e-3f + 8.36889e-3f;
  p = p * r + 4.166621e-2f;
  p = p * r + 1.6666519e-1f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  Bits bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127U) << 23;
  Floats scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return x < low ? Floats{} : p * scale;
}

// Returns 1 / (1 + e^-x), or 0 where e^-x would overflow.
inline Floats sigmoid(Floats x) {
  const Floats high = all(87.0f), minus = -x, y = minus > high ? high : minus;
  return minus > high ? Floats{} : 1.0f / (1.0f + exp_of(y));
}

// Returns tanh(x) within 3 ulp. Uses a polynomial near 0, where 1 - 2 / (e^2x + 1) would cancel.
inline Floats tanh_of(Floats x) {
  const Floats size = x < Floats{} ? -x : x;
  const Floats z = x * x;
  Floats p = z * -5.90586e-3f + 2.080538e-2f;
  p = p * z - 5.378668e-2f;
  p = p * z + 1.3331958e-1f;
  p = p * z - 3.3333299e-1f;
  const Floats near = x + x * (z * p);
  const Floats high = all(20.0f), capped = size > high ? high : size;
  const Floats far = 1.0f - 2.0f / (exp_of(2.0f * capped) + 1.0f);
  const Floats outer = x < Floats{} ? -far : far;
  return size < 0.6f ? near : outer;
}

}  // namespace
}  // namespace sluice::ops
