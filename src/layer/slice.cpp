#include "sluice/parts/values.h"

#include "base/format.h"
#include "base/text.h"
#include "layer/slice.h"
#include "sluice/error.h"

namespace sluice {

bool is_whole(const Slice& slice, const std::vector<std::int64_t>& shape) {
  if (slice.empty()) return true;
  if (slice.size() != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (slice[d] != IndexRange{0, shape[d]}) return false;
  }
  return true;
}

std::vector<std::int64_t> shape_of(const Slice& slice, const std::vector<std::int64_t>& shape,
                                   const std::string& name) {
  if (slice.empty()) return shape;
  std::vector<std::int64_t> sizes;
  bool fits = slice.size() == shape.size();
  for (std::size_t d = 0; fits && d < shape.size(); ++d) {
    const auto [offset, size] = slice[d];
    fits = offset >= 0 && size >= 0 && offset <= shape[d] && size <= shape[d] - offset;
    sizes.push_back(size);
  }
  if (fits) return sizes;
  throw Error(
      ErrorKind::kInternal,
      {.what = to_text(slice) + " is no slice of " + shape_text(shape), .where = "'" + name + "'"});
}

std::string to_text(const Slice& slice) {
  std::string text;
  for (const auto& [offset, size] : slice) {
    text += formatted("{}{}:{}", text.empty() ? "" : ", ", offset, offset + size);
  }
  return "[" + text + "]";
}

void for_each_run(const Slice& slice, const std::vector<std::int64_t>& shape,
                  const std::function<void(std::int64_t in_whole, std::int64_t in_box,
                                           std::int64_t count)>& visit) {
  const auto size_of = [&](std::size_t d) { return slice.empty() ? shape[d] : slice[d].size; };
  const auto offset_of = [&](std::size_t d) { return slice.empty() ? 0 : slice[d].offset; };
  std::vector<std::int64_t> strides(shape.size(), 1);  // of the whole
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];

  // A run holds the whole dimensions at the end, and the range of the one before them.
  std::size_t first = shape.size();
  while (first > 0 && size_of(first - 1) == shape[first - 1]) --first;
  if (first > 0) --first;
  std::int64_t count = 1, num_runs = 1, start = 0;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    (d < first ? num_runs : count) *= size_of(d);
    start += offset_of(d) * strides[d];
  }
  if (count == 0) return;
  for (std::int64_t run = 0; run < num_runs; ++run) {
    std::int64_t in_whole = start, index = run;
    for (std::size_t d = first; d-- > 0;) {
      in_whole += index % size_of(d) * strides[d];
      index /= size_of(d);
    }
    visit(in_whole, run * count, count);
  }
}

}  // namespace sluice
