#include "layer/unfilled.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "base/format.h"
#include "sluice/error.h"

namespace sluice {
namespace {

struct Mark {
  at::ScalarType type;
  std::int64_t bits;
  bool one_is_enough;  // if false, all elements must match
};

std::optional<Mark> mark_of(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return Mark{at::kInt, 0x7fa51ce5, true};
    case at::kDouble:
      return Mark{at::kLong, 0x7ff51ce51ce51ce5, true};
    case at::kHalf:
      return Mark{at::kShort, 0x7d5c, true};
    case at::kBFloat16:
      return Mark{at::kShort, 0x7fa5, true};
    case at::kBool:
      return Mark{at::kByte, 0xa5, true};  // neither false (0) nor true (1)
    default:
      break;
  }
  switch (c10::elementSize(type)) {
    case 1:
      return Mark{at::kChar, std::numeric_limits<std::int8_t>::min(), false};
    case 2:
      return Mark{at::kShort, std::numeric_limits<std::int16_t>::min(), false};
    case 4:
      return Mark{at::kInt, std::numeric_limits<std::int32_t>::min(), false};
    case 8:
      return Mark{at::kLong, std::numeric_limits<std::int64_t>::min(), false};
    default:
      return std::nullopt;
  }
}

bool has_memory(const at::Tensor& tensor) {
  // Tensors may have no memory, because ZeRO-3 frees it between uses.
  return tensor.defined() && !tensor.is_meta() && tensor.numel() > 0 &&
         tensor.storage().nbytes() > 0;
}

at::Tensor real_values(const at::Tensor& tensor) {
  const at::Tensor values = tensor.detach();
  return values.is_complex() ? at::view_as_real(values) : values;
}

}  // namespace

at::Tensor unfilled(at::IntArrayRef sizes, const at::TensorOptions& options) {
  at::Tensor tensor = at::empty(sizes, options);
  set_unfilled(tensor);
  return tensor;
}

void set_unfilled(const at::Tensor& tensor) {
  if (!has_memory(tensor)) return;
  const at::NoGradGuard no_grad;
  const at::Tensor values = real_values(tensor);
  if (const auto mark = mark_of(values.scalar_type())) values.view(mark->type).fill_(mark->bits);
}

bool is_unfilled(const at::Tensor& tensor) {
  if (!has_memory(tensor)) return false;
  const at::NoGradGuard no_grad;
  const at::Tensor values = real_values(tensor);
  const auto mark = mark_of(values.scalar_type());
  if (!mark) return false;
  const at::Tensor bits = values.view(mark->type);
  const auto holds = [&](const at::Tensor& part) {
    const at::Tensor equal = part.eq(mark->bits);
    return (mark->one_is_enough ? equal.any() : equal.all()).item<bool>();
  };
  if (!bits.is_contiguous()) return holds(bits);
  // Check small ranges, so that a large parameter needs little extra memory.
  constexpr std::int64_t kPiece = std::int64_t{1} << 13;
  const at::Tensor flat = bits.view(-1);
  for (std::int64_t at = 0; at < flat.numel(); at += kPiece) {
    const bool found = holds(flat.narrow(0, at, std::min(kPiece, flat.numel() - at)));
    if (found == mark->one_is_enough) return found;
  }
  return !mark->one_is_enough;
}

std::vector<std::string> unfilled_parameters(const Chunk& chunk) {
  std::vector<std::string> names;
  for (const ParameterInfo& parameter : chunk.parameters())
    if (is_unfilled(parameter.tensor))
      names.push_back("'" + parameter.name + "', " + to_text(meta_of(parameter.tensor)));
  return names;
}

void require_none_unfilled(const std::vector<std::string>& names, const std::string& where,
                           const std::string& remedy) {
  if (names.empty()) return;
  const std::size_t more = names.size() - 1;
  throw Error(ErrorKind::kUsage,
              {.what = "nothing draws or loads " + names.front() +
                       (more > 0 ? formatted(", and {} more of its stage", more) : ""),
               .where = where,
               .remedy = remedy});
}

void zero_unfilled(Chunk& chunk) {
  const at::NoGradGuard no_grad;
  for (const ParameterInfo& parameter : chunk.parameters())
    if (is_unfilled(parameter.tensor)) parameter.tensor.detach().zero_();
}

}  // namespace sluice
