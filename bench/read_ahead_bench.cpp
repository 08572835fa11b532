// Measures a step whose text is tokenized before it, or during the previous step. `wait_ms` is the
// time that the step waited for its batch.
//   read_ahead_bench
// Rows of 8 KiB of text, tokenized by byte-level BPE. Argument: milliseconds that a step computes.
#include <benchmark/benchmark.h>

#include <chrono>
#include <string>

#include "base/key_hash.h"
#include "data/read_ahead.h"
#include "sluice/data.h"
#include "support/small_tokenizer.h"
#include "support/temp_directory.h"

namespace sluice {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kBatch = 8, kSteps = 60, kRowBytes = 8192;

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

void compute(std::int64_t for_milliseconds) {
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(for_milliseconds);
  while (Clock::now() < end) benchmark::ClobberMemory();
}

class Corpus {
 public:
  Corpus() {
    test::SmallTokenizer tokenizer;
    tokenizer.merges = {{"t", "h"}, {"th", "e"}, {"i", "n"}, {"a", "n"}, {"e", "r"}, {"o", "n"}};
    test::write_file(folder_ / "tokenizer.json", tokenizer.json());
    std::uint64_t state = 1;
    std::string rows;
    for (std::int64_t row = 0; row < 2 * kBatch * kSteps; ++row) {
      std::string text;
      while (text.size() < kRowBytes) {
        for (std::uint64_t i = 0; i < 2 + next_bits(state) % 9; ++i)
          text += static_cast<char>('a' + next_bits(state) % 26);
        text += ' ';
      }
      rows += "{\"text\":\"" + text + "\"}\n";
    }
    test::write_file(folder_ / "rows.jsonl", rows);
  }
  TokenData open() const {
    TokenDataOptions options;
    options.data.files = {folder_ / "rows.jsonl"};
    options.data.tokenizer = folder_.str();
    options.data.truncate = true;
    options.seq_len = 2048;
    options.vocab_size = 1000;
    return TokenData(options);
  }

 private:
  const test::TempDirectory folder_;
};

const TokenData& corpus() {
  static const Corpus files;
  static const TokenData data = files.open();
  return data;
}

void report(benchmark::State& state, double wait) {
  state.counters["wait_ms"] = benchmark::Counter(wait / static_cast<double>(state.iterations()));
}

void before_the_step(benchmark::State& state) {
  const TokenData& data = corpus();
  std::int64_t step = 0;
  double wait = 0;
  for (auto iteration : state) {
    (void)iteration;
    const Clock::time_point begin = Clock::now();
    benchmark::DoNotOptimize(data.step_share(++step, kBatch, {0, kBatch}));
    wait += milliseconds(Clock::now() - begin);
    compute(state.range(0));
  }
  report(state, wait);
}

void while_the_step_before_runs(benchmark::State& state) {
  const TokenData& data = corpus();
  data::ReadAhead ahead(data, {1, kSteps, kBatch, {}, {{0, {0, kBatch}}}});
  std::int64_t step = 0;
  double wait = 0;
  for (auto iteration : state) {
    (void)iteration;
    const Clock::time_point begin = Clock::now();
    benchmark::DoNotOptimize(ahead.take(++step, 0));
    wait += milliseconds(Clock::now() - begin);
    compute(state.range(0));
  }
  report(state, wait);
}

BENCHMARK(before_the_step)
    ->Arg(10)
    ->Arg(50)
    ->Iterations(kSteps)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(while_the_step_before_runs)
    ->Arg(10)
    ->Arg(50)
    ->Iterations(kSteps)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sluice
