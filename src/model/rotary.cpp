#include "model/rotary.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

#include "base/format.h"
#include "sluice/error.h"

namespace sluice {

using detail::RopeConfig;

namespace {

// Uses transformers' float32 operations. An error in the last bit changes the angle of position
// 8000 by 0.0005.
std::vector<float> default_frequencies(std::int64_t head_dim, const RopeConfig& rope) {
  const at::Tensor exponent = at::arange(0, head_dim, 2, at::kFloat) / head_dim;
  const at::Tensor frequencies = at::pow(rope.theta, exponent).reciprocal();
  const float* data = frequencies.const_data_ptr<float>();
  return {data, data + frequencies.numel()};
}

float llama3_frequency(float frequency, const RopeConfig& rope) {
  const auto context = static_cast<float>(rope.original_max_position_embeddings);
  const auto low = static_cast<float>(rope.low_freq_factor);
  const auto high = static_cast<float>(rope.high_freq_factor);
  const auto factor = static_cast<float>(rope.factor);
  const float wavelength = 2 * std::numbers::pi_v<float> * (1 / frequency);
  if (wavelength > context / low) return frequency / factor;
  if (wavelength < context / high) return frequency;
  const float smooth = (context * (1 / wavelength) - low) / (high - low);
  return (1 - smooth) * frequency / factor + smooth * frequency;
}

// YaRN: Peng et al., arXiv:2309.00071, section 3.2. Pairs that turn often in the original context
// keep their frequency. Slow pairs are interpolated, with a ramp in between.
std::vector<float> yarn_frequencies(std::int64_t head_dim, const RopeConfig& rope) {
  const double context = static_cast<double>(rope.original_max_position_embeddings);
  const auto pair_of_turns = [&](double turns) {
    return static_cast<double>(head_dim) * std::log(context / (turns * 2 * std::numbers::pi)) /
           (2 * std::log(rope.theta));
  };
  double low = pair_of_turns(rope.beta_fast), high = pair_of_turns(rope.beta_slow);
  if (rope.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(head_dim - 1));
  if (low == high) high += 0.001;
  const at::Tensor exponent = at::arange(0, head_dim, 2, at::kFloat) / head_dim;
  const at::Tensor wavelength = at::pow(rope.theta, exponent);
  const at::Tensor ramp = ((at::arange(head_dim / 2, at::kFloat) - low) / (high - low)).clamp(0, 1);
  const at::Tensor kept = 1 - ramp;
  const at::Tensor frequencies =
      (wavelength * rope.factor).reciprocal() * (1 - kept) + wavelength.reciprocal() * kept;
  const float* data = frequencies.const_data_ptr<float>();
  return {data, data + frequencies.numel()};
}

std::vector<float> longrope_frequencies(std::int64_t head_dim, const RopeConfig& rope,
                                        bool is_long) {
  const std::vector<double>& factors = is_long ? rope.long_factors : rope.short_factors;
  if (static_cast<std::int64_t>(factors.size()) * 2 != head_dim) {
    throw Error(ErrorKind::kInput,
                {.what = formatted("{} factors are given for {} pairs of channels", factors.size(),
                                   head_dim / 2),
                 .where = is_long ? "long_factor" : "short_factor",
                 .remedy = "write one factor for every pair"});
  }
  const at::Tensor exponent = at::arange(0, head_dim, 2, at::kFloat) / head_dim;
  const at::Tensor wavelength = at::pow(rope.theta, exponent) * at::tensor(factors, at::kFloat);
  const at::Tensor frequencies = wavelength.reciprocal();
  const float* data = frequencies.const_data_ptr<float>();
  return {data, data + frequencies.numel()};
}

}  // namespace

std::vector<float> rotary_frequencies(std::int64_t head_dim, const RopeConfig& rope, bool is_long) {
  if (rope.type == "longrope") return longrope_frequencies(head_dim, rope, is_long);
  if (rope.type == "yarn") return yarn_frequencies(head_dim, rope);
  std::vector<float> frequencies = default_frequencies(head_dim, rope);
  if (rope.type == "default") return frequencies;
  for (float& frequency : frequencies) {
    if (rope.type == "linear") {
      frequency /= static_cast<float>(rope.factor);
    } else if (rope.type == "llama3") {
      frequency = llama3_frequency(frequency, rope);
    } else {
      throw Error(ErrorKind::kInput,
                  {.what = "rotary embedding '" + rope.type + "' is not implemented",
                   .where = "rope_type",
                   .remedy = "one of: default, linear, llama3, yarn, longrope"});
    }
  }
  return frequencies;
}

namespace {

void turn(float position, const std::vector<float>& frequencies, float factor, float*& cos_data,
          float*& sin_data) {
  for (const float frequency : frequencies) {
    const double angle = position * frequency;
    *cos_data++ = static_cast<float>(std::cos(angle)) * factor;
    *sin_data++ = static_cast<float>(std::sin(angle)) * factor;
  }
}

}  // namespace

std::pair<at::Tensor, at::Tensor> RotaryTable::at(const at::Tensor& position_ids,
                                                  c10::Device device) const {
  const at::Tensor positions = position_ids.to(c10::kCPU, at::kLong).contiguous();
  const bool beyond = !long_frequencies_.empty() && positions.numel() > 0 &&
                      is_long(positions.max().item<std::int64_t>() + 1);
  const std::vector<float>& frequencies = beyond ? long_frequencies_ : frequencies_;
  std::vector<std::int64_t> sizes = positions.sizes().vec();
  sizes.push_back(static_cast<std::int64_t>(frequencies_.size()));
  at::Tensor cos = at::empty(sizes, at::kFloat), sin = at::empty(sizes, at::kFloat);
  float* cos_data = cos.mutable_data_ptr<float>();
  float* sin_data = sin.mutable_data_ptr<float>();
  const auto* position = positions.const_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < positions.numel(); ++i)
    turn(static_cast<float>(position[i]), frequencies, factor_, cos_data, sin_data);
  return {cos.to(device), sin.to(device)};
}

std::pair<at::Tensor, at::Tensor> RotaryTable::get(std::int64_t length, c10::Device device) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool beyond = is_long(length);
  const std::vector<float>& frequencies = beyond ? long_frequencies_ : frequencies_;
  Entry* entry = nullptr;
  for (Entry& candidate : entries_) {
    if (candidate.device == device && candidate.is_long == beyond) entry = &candidate;
  }
  if (!entry) entry = &entries_.emplace_back(Entry{device, beyond, {}, {}});
  if (!entry->cos_LR.defined() || entry->cos_LR.size(0) < length) {
    // Autograd cannot save a tensor that was created in inference mode.
    const c10::InferenceMode normal_tensors(false);
    const auto rows = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(length)));
    const auto columns = static_cast<std::int64_t>(frequencies_.size());
    at::Tensor cos_LR = at::empty({rows, columns}, at::kFloat),
               sin_LR = at::empty({rows, columns}, at::kFloat);
    float* cos_data = cos_LR.mutable_data_ptr<float>();
    float* sin_data = sin_LR.mutable_data_ptr<float>();
    for (std::int64_t position = 0; position < rows; ++position)
      turn(static_cast<float>(position), frequencies, factor_, cos_data, sin_data);
    entry->cos_LR = cos_LR.to(device);
    entry->sin_LR = sin_LR.to(device);
  }
  return {entry->cos_LR.narrow(0, 0, length), entry->sin_LR.narrow(0, 0, length)};
}

at::Tensor rotate(const at::Tensor& x_BHLE, const at::Tensor& cos_LR, const at::Tensor& sin_LR) {
  const at::Tensor cos = cos_LR.to(x_BHLE.scalar_type()), sin = sin_LR.to(x_BHLE.scalar_type());
  const std::int64_t half = cos.size(-1), rest = x_BHLE.size(-1) - 2 * half;
  const std::vector<at::Tensor> x =
      rest == 0 ? x_BHLE.chunk(2, -1) : x_BHLE.split_with_sizes({half, half, rest}, -1);
  std::vector<at::Tensor> turned = {x[0] * cos - x[1] * sin, x[1] * cos + x[0] * sin};
  if (rest > 0) turned.push_back(x[2]);
  return at::cat(turned, -1);
}

}  // namespace sluice
