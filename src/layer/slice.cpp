#include "sluice/parts/values.h"

#include "base/format.h"
#include "base/text.h"
#include "layer/slice.h"
#include "plan/slices.h"
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
  throw Error(ErrorKind::kInternal,
              {.what = to_text(slice) + " is not a slice of " + shape_text(shape),
               .where = "'" + name + "'"});
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
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];

  // A run spans all dimensions from the last partly covered one on.
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

std::vector<Slice> ParameterInfo::boxes() const {
  Slice all;
  for (const std::int64_t size : global_shape) all.push_back({0, size});
  if (is_whole()) return {all};
  std::vector<Slice> boxes;
  for (const detail::Cut& cut : detail::cuts_of(global_shape, *split, slices, name)) {
    boxes.push_back(all);
    boxes.back()[static_cast<std::size_t>(split->dim)] = {cut.begin, cut.size()};
  }
  return boxes;
}

void for_each_box(const ParameterInfo& parameter, const at::Tensor& local,
                  const std::function<void(const Slice& box, at::Tensor part)>& visit) {
  const std::vector<Slice> boxes = parameter.boxes();
  if (boxes.size() == 1) return visit(boxes.front(), local);
  const int dim = parameter.split->dim;
  std::int64_t begin = 0;
  for (const Slice& box : boxes) {
    const std::int64_t size = box[static_cast<std::size_t>(dim)].size;
    visit(box, local.narrow(dim, begin, size));
    begin += size;
  }
}

std::vector<at::Tensor> parts_of_slice(const ParameterInfo& parameter, const at::Tensor& local,
                                       int slice) {
  if (!parameter.split) return {local};
  const auto cuts = [&](const SliceRange& slices) {
    return detail::cuts_of(parameter.global_shape, *parameter.split, slices, parameter.name);
  };
  const std::vector<detail::Cut> own = cuts(parameter.slices);
  const std::vector<detail::Cut> wanted = cuts({slice, slice + 1, parameter.slices.count});
  std::vector<at::Tensor> parts;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    parts.push_back(local.narrow(parameter.split->dim, begin + wanted[i].begin - own[i].begin,
                                 wanted[i].size()));
    begin += own[i].size();
  }
  return parts;
}

std::string held_text(const ParameterInfo& parameter) {
  const auto& [begin, end, count] = parameter.slices;
  return formatted("slices {} to {} of {} of {}", begin, end, count,
                   shape_text(parameter.global_shape));
}

}  // namespace sluice
