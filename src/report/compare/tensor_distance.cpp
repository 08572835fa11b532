#include "report/compare/tensor_distance.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "base/format.h"
#include "sluice/error.h"

namespace sluice {
namespace {

constexpr std::uint64_t kPieceElements = std::uint64_t{1} << 18;

std::int64_t num_elements(const StoredTensor& tensor) {
  std::int64_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= size;
  return count;
}

bool have_equal_bytes(const StoredTensor& a, const StoredTensor& b, TensorFiles& files) {
  if (a.dtype != b.dtype || a.end - a.begin != b.end - b.begin) return false;
  const std::uint64_t piece = std::min<std::uint64_t>(std::uint64_t{1} << 20, a.end - a.begin);
  std::vector<char> x(piece), y(piece);
  for (std::uint64_t done = 0; done < a.end - a.begin; done += x.size()) {
    const std::size_t count = std::min<std::uint64_t>(x.size(), a.end - a.begin - done);
    files.read(a, done, count, x.data());
    files.read(b, done, count, y.data());
    if (std::memcmp(x.data(), y.data(), count) != 0) return false;
  }
  return true;
}

const FloatDtype& float_dtype_of(const StoredTensor& tensor) {
  if (const FloatDtype* const dtype = find_stored_float(tensor.dtype)) return *dtype;
  throw Error(ErrorKind::kInput,
              {.what = formatted("tensors of dtype {} differ and cannot be compared as numbers",
                                 tensor.dtype),
               .where = tensor.file,
               .remedy = "store floating-point tensors as F64, F32, F16 or BF16"});
}

// Calls visit(index, x, y) with pieces of both tensors as doubles.
template <typename Visit>
void for_each_piece(const StoredTensor& a, const StoredTensor& b, TensorFiles& files,
                    const Visit& visit) {
  const FloatDtype &of_a = float_dtype_of(a), &of_b = float_dtype_of(b);
  const auto elements = static_cast<std::uint64_t>(num_elements(a));
  const std::uint64_t piece = std::min(kPieceElements, elements);
  std::vector<char> bytes(piece * 8);
  std::vector<double> x(piece), y(piece);
  for (std::uint64_t done = 0; done < elements; done += kPieceElements) {
    const std::size_t count = std::min(kPieceElements, elements - done);
    files.read(a, done * of_a.bytes, count * of_a.bytes, bytes.data());
    to_doubles(of_a, bytes.data(), count, x.data());
    files.read(b, done * of_b.bytes, count * of_b.bytes, bytes.data());
    to_doubles(of_b, bytes.data(), count, y.data());
    visit(static_cast<std::int64_t>(done), std::span(x.data(), count), std::span(y.data(), count));
  }
}

}  // namespace

double TensorDistance::relative() const {
  const double norm = std::max(norm_a, norm_b);
  return norm > 0 ? norm_difference / norm : 0;
}

double TensorDistance::rms() const {
  return elements > 0 ? std::max(norm_a, norm_b) / std::sqrt(static_cast<double>(elements)) : 0;
}

TensorDistance tensor_distance(const StoredTensor& a, const StoredTensor& b, TensorFiles& files) {
  TensorDistance distance;
  distance.elements = num_elements(a);
  if (have_equal_bytes(a, b, files)) return distance;
  const FloatDtype &of_a = float_dtype_of(a), &of_b = float_dtype_of(b);
  const FloatDtype& coarser = of_a.mantissa_bits < of_b.mantissa_bits ? of_a : of_b;
  double aa = 0, bb = 0, ab = 0, dd = 0;
  for_each_piece(a, b, files, [&](std::int64_t begin, auto x, auto y) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double p = x[i], q = y[i];
      const bool is_finite = std::isfinite(p) && std::isfinite(q);
      if (p == q || (std::isnan(p) && std::isnan(q))) {
        if (is_finite) aa += p * p, bb += q * q, ab += p * q;
        continue;
      }
      if (distance.different++ == 0) distance.first = begin + static_cast<std::int64_t>(i);
      if (!is_finite) {
        ++distance.not_finite;
        continue;
      }
      aa += p * p, bb += q * q, ab += p * q;
      const double difference = std::abs(p - q);
      dd += difference * difference;
      distance.largest_difference = std::max(distance.largest_difference, difference);
      const double ulp = coarser.ulp(std::max(std::abs(p), std::abs(q)));
      distance.largest_ulps = std::max(distance.largest_ulps, difference / ulp);
    }
  });
  distance.norm_a = std::sqrt(aa);
  distance.norm_b = std::sqrt(bb);
  distance.norm_difference = std::sqrt(dd);
  distance.scale = aa > 0 ? ab / aa : 1;
  distance.norm_residual =
      std::sqrt(std::max(0.0, dd - (distance.scale - 1) * (distance.scale - 1) * aa));
  return distance;
}

double tensor_rms(const StoredTensor& tensor, TensorFiles& files) {
  double squares = 0;
  for_each_piece(tensor, tensor, files, [&](std::int64_t, auto x, auto) {
    for (const double value : x) squares += value * value;
  });
  const std::int64_t elements = num_elements(tensor);
  return elements > 0 ? std::sqrt(squares / static_cast<double>(elements)) : 0;
}

double share_beyond(const StoredTensor& a, const StoredTensor& b, double rms, double bound,
                    TensorFiles& files) {
  std::int64_t counted = 0, beyond = 0;
  for_each_piece(a, b, files, [&](std::int64_t, auto x, auto y) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (x[i] == 0 && y[i] == 0) continue;
      ++counted;
      const double reach = std::max({std::abs(x[i]), std::abs(y[i]), rms});
      if (std::abs(x[i] - y[i]) > bound * reach) ++beyond;
    }
  });
  return counted > 0 ? static_cast<double>(beyond) / static_cast<double>(counted) : 0;
}

}  // namespace sluice
