#include "data/held_out.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <utility>
#include <variant>

#include "base/format.h"
#include "base/key_hash.h"
#include "base/text.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

// Reads only the given rows of another source. `rows` has their indices in ascending order.
class RowSubset final : public SequenceSource {
 public:
  RowSubset(std::unique_ptr<SequenceSource> all, std::vector<std::uint64_t> rows)
      : all_(std::move(all)), rows_(std::move(rows)) {
    const std::vector<std::uint64_t>& uncounted = all_->uncounted();
    for (std::uint64_t i = 0; i < rows_.size(); ++i) {
      if (std::binary_search(uncounted.begin(), uncounted.end(), rows_[i])) uncounted_.push_back(i);
    }
  }

  std::uint64_t num_sequences() const override { return rows_.size(); }
  std::uint64_t num_bytes() const override {
    return static_cast<std::uint64_t>(static_cast<double>(all_->num_bytes()) *
                                      static_cast<double>(rows_.size()) /
                                      static_cast<double>(all_->num_sequences()));
  }
  Sequence read(std::uint64_t index) const override { return all_->read(rows_[index]); }
  std::int64_t counted_labels(std::uint64_t index) const override {
    return all_->counted_labels(rows_[index]);
  }
  std::string place(std::uint64_t index) const override { return all_->place(rows_[index]); }
  const std::vector<std::uint64_t>& uncounted() const override { return uncounted_; }
  std::string uncounted_file() const override { return all_->uncounted_file(); }
  std::optional<double> unigram_entropy() const override { return all_->unigram_entropy(); }

 private:
  std::unique_ptr<SequenceSource> all_;
  std::vector<std::uint64_t> rows_, uncounted_;
};

template <typename Number>
void absorb_all(const std::vector<Number>& numbers, std::uint64_t& key) {
  key = absorb(key, numbers.size());
  for (const Number number : numbers) {
    if constexpr (std::is_floating_point_v<Number>)
      key = absorb(key, std::bit_cast<std::uint64_t>(static_cast<double>(number)));
    else
      key = absorb(key, static_cast<std::uint64_t>(number));
  }
}

std::uint64_t key_of(const Sequence& row, std::int64_t seed) {
  std::uint64_t key = absorb(hash_name("held out"), static_cast<std::uint64_t>(seed));
  absorb_all(row.ids, key);
  absorb_all(row.labels, key);
  absorb_all(row.mask, key);
  absorb_all(row.positions, key);
  for (const FieldValue& field : row.fields) {
    absorb_all(field.sizes, key);
    std::visit([&](const auto& numbers) { absorb_all(numbers, key); }, field.numbers);
  }
  return key;
}

[[noreturn]] void refuse_split(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = "`held_out`", .remedy = remedy});
}

std::int64_t num_held_out(double held_out, std::int64_t num_rows) {
  const std::int64_t count =
      std::llround(held_out < 1 ? held_out * static_cast<double>(num_rows) : held_out);
  if (count >= 1 && count < num_rows) return count;
  refuse_split(formatted("`held_out` = {} holds out {} of {}", shortest(held_out), count,
                         counted(num_rows, "row")),
               "hold out at least one row, and leave at least one to train on");
}

}  // namespace

Sources part_of(Sources sources, const TokenDataOptions& options) {
  if (options.held_out == 0) return sources;
  std::vector<std::vector<std::uint64_t>> keys;
  std::vector<std::uint64_t> all;
  for (const auto& source : sources) {
    std::vector<std::uint64_t>& own = keys.emplace_back();
    for (std::uint64_t row = 0; row < source->num_sequences(); ++row)
      own.push_back(key_of(source->read(row), options.seed));
    all.insert(all.end(), own.begin(), own.end());
  }
  const auto last = all.begin() + num_held_out(options.held_out, std::ssize(all)) - 1;
  std::nth_element(all.begin(), last, all.end());
  const std::uint64_t limit = *last;
  Sources parts;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    std::vector<std::uint64_t> rows;
    for (std::uint64_t row = 0; row < keys[i].size(); ++row) {
      if ((keys[i][row] <= limit) == (options.part == DataPart::kHeldOut)) rows.push_back(row);
    }
    if (!rows.empty()) {
      parts.push_back(std::make_unique<RowSubset>(std::move(sources[i]), std::move(rows)));
    } else if (options.part == DataPart::kTraining) {
      refuse_split(formatted("`held_out` = {} leaves no row of {} to train on, since equal rows "
                             "are held out together",
                             shortest(options.held_out), sources[i]->place(0)),
                   "hold out fewer rows, or give files for validation");
    }
  }
  return parts;
}

}  // namespace sluice::data
