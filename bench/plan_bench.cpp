// Measures how long the whole plan of a step takes: build the schedule, lower it with sharded
// parameters and gradient reductions, prove it, predict it. The series over microbatches and ranks
// show that the time per instruction does not grow (counter `per_instruction`).
//
// bench/compare_torch_schedule.py times torch's construction of the same schedules.
#include <benchmark/benchmark.h>

#include "sluice/error.h"
#include "sluice/program.h"
#include "sluice/simulate.h"
#include "sluice/verify.h"

namespace {

using namespace sluice;

struct Size {
  const char* name;
  int num_ranks, stages_per_rank, num_microbatches;
};

ScheduleShape shape_of(const Size& size) {
  return {size.num_ranks, size.stages_per_rank, size.num_microbatches};
}

LowerOptions lowering() {
  LowerOptions options;
  options.shard_parameters = true;
  options.reduce_gradients = true;
  return options;
}

std::size_t count_instructions(const Program& program) {
  std::size_t count = 0;
  for (const std::vector<Action>& row : program.ranks) count += row.size();
  return count;
}

void report_size(benchmark::State& state, const Program& program) {
  const double instructions = static_cast<double>(count_instructions(program));
  state.counters["instructions"] = instructions;
  state.counters["per_instruction"] = benchmark::Counter(
      instructions, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void plan(benchmark::State& state, const Size& size) {
  Program program;
  for (auto _ : state) {
    program = lower(make_schedule(size.name, shape_of(size)), lowering());
    const VerifyReport report = verify(program);
    require_verified(report, size.name);
    benchmark::DoNotOptimize(report.max_in_flight);
    benchmark::DoNotOptimize(simulate(program).makespan);
  }
  report_size(state, program);
}

void BM_Interleaved1F1B_64x4x1024(benchmark::State& state) {
  plan(state, {"Interleaved1F1B", 64, 4, 1024});
}
void BM_ZBVZeroBubble_128x512(benchmark::State& state) {
  plan(state, {"ZBVZeroBubble", 128, 2, 512});
}
void BM_DualPipeV_128x512(benchmark::State& state) { plan(state, {"DualPipeV", 128, 2, 512}); }
BENCHMARK(BM_Interleaved1F1B_64x4x1024)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ZBVZeroBubble_128x512)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_DualPipeV_128x512)->Unit(benchmark::kMillisecond);

void BM_OverMicrobatches(benchmark::State& state) {
  plan(state, {"Interleaved1F1B", 16, 4, static_cast<int>(state.range(0))});
}
void BM_OverRanks(benchmark::State& state) {
  plan(state, {"ZBVZeroBubble", static_cast<int>(state.range(0)), 2, 512});
}
BENCHMARK(BM_OverMicrobatches)->RangeMultiplier(2)->Range(64, 4096)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_OverRanks)->RangeMultiplier(2)->Range(4, 256)->Unit(benchmark::kMillisecond);

// Each part alone, on the largest of the three sizes.
const Size kParts = {"Interleaved1F1B", 64, 4, 1024};

void BM_Build(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(make_schedule(kParts.name, shape_of(kParts)));
}
void BM_Lower(benchmark::State& state) {
  const Schedule schedule = make_schedule(kParts.name, shape_of(kParts));
  for (auto _ : state) benchmark::DoNotOptimize(lower(schedule, lowering()));
}
void BM_Verify(benchmark::State& state) {
  const Program program = lower(make_schedule(kParts.name, shape_of(kParts)), lowering());
  for (auto _ : state) benchmark::DoNotOptimize(verify(program));
  report_size(state, program);
}
void BM_Simulate(benchmark::State& state) {
  const Program program = lower(make_schedule(kParts.name, shape_of(kParts)), lowering());
  for (auto _ : state) benchmark::DoNotOptimize(simulate(program));
  report_size(state, program);
}
BENCHMARK(BM_Build)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Lower)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Verify)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_Simulate)->Unit(benchmark::kMillisecond);

}  // namespace
