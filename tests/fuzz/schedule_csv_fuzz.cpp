// Any bytes as a schedule file: an Error or a schedule that survives being written and read again.
// With SLUICE_FUZZ this is a libFuzzer target; its corpus is replayed in every build by
// FuzzCorpusTest.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "sluice/error.h"
#include "sluice/schedule.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sluice::Schedule schedule;
  try {
    schedule = sluice::parse_schedule_csv(text, "fuzz.csv");
  } catch (const sluice::Error& error) {
    if (error.kind() != sluice::ErrorKind::kInput) std::abort();
    return 0;
  }
  const std::string written = sluice::to_csv(schedule.rows);
  const sluice::Schedule again = sluice::parse_schedule_csv(written, "fuzz.csv");
  if (again.stage_to_rank != schedule.stage_to_rank || sluice::to_csv(again.rows) != written) {
    std::abort();
  }
  return 0;
}
