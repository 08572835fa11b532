#include "optim/gradient_norm.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "device/transfers.h"

namespace sluice {
namespace {

constexpr std::int64_t kBlock = kGradientBlock;
constexpr int kLanes = 8;

// Sums term(x[i]) in kLanes interleaved sums, so the order of additions does not depend on the
// vector width.
template <typename T, typename Term>
double sum_block(const T* x, std::int64_t count, const Term& term) {
  double lanes[kLanes] = {};
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += term(static_cast<double>(x[i + lane]));
  }
  for (int lane = 0; i < count; ++i, ++lane) lanes[lane] += term(static_cast<double>(x[i]));
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

template <typename T>
double largest_of_block(const T* x, std::int64_t count) {
  double largest = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double size = std::abs(static_cast<double>(x[i]));
    if (!(size <= largest)) largest = size;  // also true for NaN, which no later element replaces
    if (std::isnan(largest)) return largest;
  }
  return largest;
}

double tree_sum(std::span<const double> terms) {
  if (terms.empty()) return 0.0;
  if (terms.size() == 1) return terms[0];
  const std::size_t half = terms.size() / 2;
  return tree_sum(terms.first(half)) + tree_sum(terms.subspan(half));
}

template <typename T>
double block_result(const T* x, std::int64_t count, double p, double scale) {
  if (p == 2.0) return sum_block(x, count, [](double v) { return v * v; });
  if (p == 1.0) return sum_block(x, count, [](double v) { return std::abs(v); });
  if (std::isinf(p)) return largest_of_block(x, count);
  return sum_block(x, count, [=](double v) { return std::pow(std::abs(v) / scale, p); });
}

double root(double sum, double p) {
  if (p == 2.0) return std::sqrt(sum);
  return p == 1.0 ? sum : std::pow(sum, 1.0 / p);
}

double largest_of(std::span<const double> values) {
  return largest_of_block(values.data(), static_cast<std::int64_t>(values.size()));
}

// Whether to divide elements by the largest first, because their powers may overflow a double.
bool needs_scale(double p) { return p != 1.0 && p != 2.0 && !std::isinf(p); }
bool is_scale(double largest) { return largest > 0.0 && std::isfinite(largest); }

template <typename T>
std::vector<double> block_results(const T* x, std::int64_t count, double p, double scale) {
  std::vector<double> partial(static_cast<std::size_t>((count + kBlock - 1) / kBlock));
  at::parallel_for(
      0, static_cast<std::int64_t>(partial.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t block = begin; block < end; ++block) {
          const std::int64_t first = block * kBlock;
          partial[block] = block_result(x + first, std::min(kBlock, count - first), p, scale);
        }
      });
  return partial;
}

template <typename T>
double flat_norm(const T* x, std::int64_t count, double p) {
  const double scale =
      needs_scale(p) ? flat_norm(x, count, std::numeric_limits<double>::infinity()) : 1.0;
  if (!is_scale(scale)) return scale;
  const std::vector<double> partial = block_results(x, count, p, scale);
  return std::isinf(p) ? largest_of(partial) : scale * root(tree_sum(partial), p);
}

at::Tensor squares_on_device(const at::Tensor& flat) {
  const std::int64_t whole = flat.numel() / kBlock * kBlock;
  const auto squares = [](const at::Tensor& rows) {
    return at::linalg_vector_norm(rows, 2.0, at::IntArrayRef(1), false, at::kDouble).square();
  };
  const at::Tensor rows = flat.narrow(0, 0, whole).view({-1, kBlock});
  const at::Tensor rest = flat.narrow(0, whole, flat.numel() - whole).view({1, -1});
  if (whole == flat.numel()) return squares(rows);
  return whole == 0 ? squares(rest) : at::cat({squares(rows), squares(rest)});
}

}  // namespace

double tensor_norm(const at::Tensor& tensor, double p) {
  const at::Tensor values = tensor.detach();
  if (values.numel() == 0) return 0.0;
  if (values.is_cpu() && values.is_non_overlapping_and_dense()) {
    if (values.scalar_type() == at::kFloat)
      return flat_norm(values.const_data_ptr<float>(), values.numel(), p);
    if (values.scalar_type() == at::kDouble)
      return flat_norm(values.const_data_ptr<double>(), values.numel(), p);
  }
  const auto norm = [](const at::Tensor& x, double order) {
    return at::linalg_vector_norm(x, order, std::nullopt, false, at::kDouble).item<double>();
  };
  if (!needs_scale(p)) return norm(values, p);
  const double scale = norm(values, std::numeric_limits<double>::infinity());
  return is_scale(scale) ? scale * norm(values.to(at::kDouble) / scale, p) : scale;
}

std::vector<double> block_squares(const at::Tensor& flat) {
  const at::Tensor values = flat.detach();
  if (values.is_cpu() && values.scalar_type() == at::kFloat)
    return block_results(values.const_data_ptr<float>(), values.numel(), 2.0, 1.0);
  if (values.is_cpu() && values.scalar_type() == at::kDouble)
    return block_results(values.const_data_ptr<double>(), values.numel(), 2.0, 1.0);
  if (!values.is_cpu()) return read_numbers({squares_on_device(values)});
  std::vector<double> squares;
  for (std::int64_t begin = 0; begin < values.numel(); begin += kBlock) {
    const at::Tensor block = values.narrow(0, begin, std::min(kBlock, values.numel() - begin));
    const double norm =
        at::linalg_vector_norm(block, 2.0, std::nullopt, false, at::kDouble).item<double>();
    squares.push_back(norm * norm);
  }
  return squares;
}

void take_squares(const std::function<void(const SquaresOf&)>& take) {
  std::vector<at::Tensor> there;
  take([&](const at::Tensor& flat) {
    if (flat.is_cpu()) return block_squares(flat);
    there.push_back(squares_on_device(flat.detach()));
    return std::vector<double>(static_cast<std::size_t>(there.back().numel()));
  });
  if (there.empty()) return;
  const std::vector<double> numbers = read_numbers(there);
  auto next = numbers.begin();
  auto tensor = there.begin();
  take([&](const at::Tensor& flat) {
    if (flat.is_cpu()) return block_squares(flat);
    const auto begin = std::exchange(next, next + (tensor++)->numel());
    return std::vector<double>(begin, next);
  });
}

double norm_of_blocks(std::span<const double> squares) { return root(tree_sum(squares), 2.0); }

double combine_norms(std::span<const double> norms, double p) {
  if (std::isinf(p)) return largest_of(norms);
  const double scale = needs_scale(p) ? largest_of(norms) : 1.0;
  if (!is_scale(scale)) return scale;
  std::vector<double> powers(norms.begin(), norms.end());
  for (double& value : powers) value = p == 2.0 ? value * value : std::pow(value / scale, p);
  return scale * root(tree_sum(powers), p);
}

double clip_coefficient(double norm, double max_norm) {
  if (max_norm <= 0.0) return 1.0;
  return std::min(1.0, max_norm / (norm + 1e-6));
}

}  // namespace sluice
