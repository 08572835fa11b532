#include "model/microbatch_rows.h"

#include <ATen/ops/empty.h>

#include <variant>

#include "base/format.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice::detail {
namespace {

at::ScalarType type_of(const std::vector<std::uint8_t>& /*numbers*/) { return at::kByte; }
at::ScalarType type_of(const std::vector<std::int64_t>& /*numbers*/) { return at::kLong; }
at::ScalarType type_of(const std::vector<float>& /*numbers*/) { return at::kFloat; }
at::ScalarType type_of(const std::vector<double>& /*numbers*/) { return at::kDouble; }

}  // namespace

MicrobatchRows::MicrobatchRows(const TokenRows& rows, std::int64_t first, std::int64_t count)
    : rows_(rows), first_(first), count_(count), length_(rows.seq_len) {
  if (rows.lengths.empty()) return;
  const auto lengths = rows.lengths.begin() + first;
  length_ = *std::max_element(lengths, lengths + count);
}

at::Tensor MicrobatchRows::empty_tokens() const { return at::empty({count_, length_}, at::kLong); }

bool MicrobatchRows::has_mask() const {
  if (rows_.attention_mask.empty()) return false;
  for (std::int64_t row = first_; row < first_ + count_; ++row) {
    const auto begin = rows_.attention_mask.begin() + row * rows_.seq_len;
    if (std::find(begin, begin + length_, 0) != begin + length_) return true;
  }
  return false;
}

// Looks only at this microbatch, because results must not depend on other rows.
bool MicrobatchRows::has_positions() const {
  if (rows_.position_ids.empty()) return false;
  for (std::int64_t row = first_; row < first_ + count_; ++row) {
    const auto begin = rows_.position_ids.begin() + row * rows_.seq_len;
    for (std::int64_t i = 0; i < length_; ++i)
      if (begin[i] != i) return true;
  }
  return false;
}

at::Tensor MicrobatchRows::field(const FieldRows& field) const {
  const auto first = field.rows.begin() + first_, end = first + count_;
  const bool joins = field.field.concatenated;
  std::int64_t items = 0;
  // Rows without items have no sizes.
  const auto with_items =
      std::find_if(first, end, [&](const FieldValue& row) { return !joins || row.sizes[0] > 0; });
  std::vector<std::int64_t> sizes = (with_items == end ? first : with_items)->sizes;
  for (auto row = first; row != end; ++row) {
    if (joins) items += row->sizes[0];
    const std::ptrdiff_t from = joins ? 1 : 0;
    if ((joins && row->sizes[0] == 0) ||
        std::equal(row->sizes.begin() + from, row->sizes.end(), sizes.begin() + from, sizes.end()))
      continue;
    throw Error(ErrorKind::kInput,
                {.what = formatted("'{}' is {} and {} in two rows of a microbatch",
                                   field.field.name, shape_text(sizes), shape_text(row->sizes)),
                 .remedy = "give all rows of a microbatch the same sizes"});
  }
  if (joins) {
    sizes[0] = items;
  } else {
    sizes.insert(sizes.begin(), count_);
  }
  at::Tensor result = std::visit(
      [&](const auto& of_first) {
        using Numbers = std::decay_t<decltype(of_first)>;
        using Number = typename Numbers::value_type;
        at::Tensor all = at::empty(sizes, type_of(of_first));
        auto* to = all.mutable_data_ptr<Number>();
        for (auto row = first; row != end; ++row) {
          const Numbers& numbers = std::get<Numbers>(row->numbers);
          to = std::copy(numbers.begin(), numbers.end(), to);
        }
        return all;
      },
      first->numbers);
  for (std::size_t d = 0; d < field.field.sizes.size(); ++d)
    if (field.field.sizes[d] == kRowTokens)
      result = result.narrow(static_cast<std::int64_t>(d) + 1, 0, length_);
  return result.contiguous();
}

}  // namespace sluice::detail
