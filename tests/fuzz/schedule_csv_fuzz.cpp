// The result must be an Error, or a schedule that survives writing and reading and passes through
// all that `sluice schedule` does with a file. FuzzCorpusTest replays the corpus in every build.
#include <cstdint>
#include <string_view>

#include "fuzz/require.h"
#include "plan/passes/passes.h"
#include "sluice/error.h"
#include "sluice/program.h"
#include "sluice/schedule.h"
#include "sluice/simulate.h"
#include "sluice/verify.h"

using sluice::test::require;

namespace {

// Returns true if `work` finishes and false if it throws an input error. Any other error aborts.
template <typename Work>
bool completes(Work work) {
  try {
    work();
    return true;
  } catch (const sluice::Error& error) {
    require(error.kind() == sluice::ErrorKind::kInput);
    return false;
  }
}

void check_program(const sluice::Program& program) {
  const sluice::VerifyReport report = sluice::verify(program);
  require(!sluice::draw_violations(program, report).empty());
  if (!report.ok()) return;
  require(completes([&] { sluice::draw_grid(sluice::simulate(program)); }));
}

}  // namespace

extern "C" int fuzz_schedule_csv(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sluice::Schedule schedule;
  if (!completes([&] { schedule = sluice::parse_schedule_csv(text, "fuzz.csv"); })) return 0;

  const std::string written = sluice::to_csv(schedule.rows);
  const sluice::Schedule again = sluice::parse_schedule_csv(written, "fuzz.csv");
  require(again.stage_map.ranks() == schedule.stage_map.ranks());
  require(sluice::to_csv(again.rows) == written);

  check_program(sluice::to_program(schedule));
  sluice::LowerOptions options;
  options.shard_parameters = options.reduce_gradients = true;
  options.defer_receives = options.merge_backward = true;
  completes([&] { check_program(sluice::lower(schedule, options)); });
  return 0;
}
