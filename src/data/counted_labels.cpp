#include "data/counted_labels.h"

#include <algorithm>

#include "base/format.h"
#include "data/sequence_order.h"
#include "sluice/error.h"

namespace sluice::data {
namespace {

// Number of rows to check before training, about one second.
constexpr std::int64_t kForeseenRows = 5'000'000;
constexpr const char* kRemedy =
    "neither -100 nor the first label of a row counts: give other labels";

// True if no label in the batch counts for the loss. False if some row was not read at startup.
// Counts rows in `looks`.
bool is_uncounted(const DataEntries& entries, DataPosition position, std::int64_t batch_size,
                  std::int64_t& looks) {
  for (std::int64_t row = 0; row < batch_size; ++row) {
    ++looks;
    const DataEntries::Place place = entries.at(position, row);
    const std::vector<std::uint64_t>& uncounted = entries.source(place.entry).uncounted();
    if (!std::binary_search(uncounted.begin(), uncounted.end(), place.sequence)) return false;
  }
  return true;
}

}  // namespace

void require_counted_labels(const DataEntries& entries, std::int64_t steps, std::int64_t batch_size,
                            const StepsDone& done, std::int64_t end) {
  std::int64_t uncounted = 0;
  for (const auto& source : entries.sources()) {
    uncounted += static_cast<std::int64_t>(source->uncounted().size());
    const std::string file = source->uncounted_file();
    if (!file.empty()) refuse_uncounted_file(file);
  }
  if (uncounted == 0) return;
  const auto rows_of = [&](DataPosition position) {
    return std::min(batch_size, end - position.sequence);
  };
  // A batch without counted labels contains no whole epoch of a data entry, so it has each row
  // without counted labels at most twice. Only the last batch may be smaller.
  std::int64_t step = done.steps + 1, looks = 0;
  if (batch_size > 2 * uncounted) step = std::max(step, steps);
  for (; step <= steps && looks < kForeseenRows; ++step) {
    const DataPosition position = position_of_step(step, batch_size, done);
    const std::int64_t rows = rows_of(position);
    if (rows > 0 && is_uncounted(entries, position, rows, looks))
      refuse_uncounted(entries, step, position, rows);
  }
}

void refuse_uncounted_file(const std::string& file) {
  throw Error(
      ErrorKind::kInput,
      {.what = "no row of the file has a label that is counted", .where = file, .remedy = kRemedy});
}

void refuse_uncounted(const DataEntries& entries, std::int64_t step, DataPosition position,
                      std::int64_t batch_size) {
  constexpr std::int64_t kNamedRows = 4;
  std::string where = "step " + std::to_string(step);
  for (std::int64_t row = 0; row < std::min(batch_size, kNamedRows); ++row) {
    const DataEntries::Place place = entries.at(position, row);
    where += ", " + entries.source(place.entry).place(place.sequence);
  }
  if (batch_size > kNamedRows) where += formatted(" and {} more", batch_size - kNamedRows);
  throw Error(ErrorKind::kInput, {.what = "no label of the step's batch is counted",
                                  .where = where,
                                  .remedy = std::string(kRemedy) + ", or take larger batches"});
}

}  // namespace sluice::data
