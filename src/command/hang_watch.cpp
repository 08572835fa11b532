#include "command/hang_watch.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/format.h"
#include "base/text.h"
#include "job/judge_clock.h"

namespace sluice {
namespace {

using Milliseconds = std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// How often the watch updates the usual times of instructions.
constexpr Milliseconds kLearn{500};

std::string seconds_text(HangLimits::Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  return seconds < 10 ? fixed(seconds, 2) : fixed(seconds, 0);
}

}  // namespace

struct HangWatch::Impl {
  struct Rank {
    const FlightRecorder* recorder;
    HangJudge judge;
  };

  Impl(const std::map<int, const FlightRecorder*>& recorders, HangWatchOptions given)
      : options(std::move(given)),
        named(std::chrono::duration_cast<Milliseconds>(options.limits.named)),
        clock(Clock::now()) {
    for (const auto& [rank, recorder] : recorders)
      ranks.emplace(rank, Rank{recorder, HangJudge(options.limits)});
    thread = std::thread([this] { watch(); });
  }

  ~Impl() {
    {
      const std::lock_guard lock(mutex);
      ending = true;
    }
    told.notify_all();
    thread.join();
  }

  bool sleep(Milliseconds time) {
    std::unique_lock lock(mutex);
    return !told.wait_for(lock, time, [this] { return ending; });
  }

  void watch() {
    while (sleep(check_interval(named))) {
      clock.tick(Clock::now(), max_check_interval(named));
      const bool learns = clock.counted() - learned >= kLearn;
      if (learns) learned = clock.counted();
      for (auto& [rank, watched] : ranks) {
        if (learns) learn(watched);
        if (!look(rank, watched)) return;
      }
    }
  }

  static void learn(Rank& watched) {
    for (const auto& [action, seconds] : watched.recorder->computed())
      watched.judge.learn(action, seconds);
  }

  // Returns false after ending the run.
  bool look(int rank, Rank& watched) {
    std::optional<RunningAction> running = watched.recorder->running();
    if (running && waits(rank)) running.reset();
    const HangVerdict verdict = watched.judge.look(running, clock.counted());
    if (verdict == HangVerdict::kHangs) {
      options.warn(rank, text_of(rank, watched.judge),
                   "the run waits on, for at most comm.train_timeout_seconds; look at what the "
                   "rank does (SIGUSR2 writes flight records)");
    }
    if (verdict != HangVerdict::kIsOver || !options.ends_run) return true;
    const Error error(
        ErrorKind::kPeer,
        {.what = text_of(rank, watched.judge),
         .where = options.waits(),
         .remedy = "check what the rank is doing; the run waits for comm.train_timeout_seconds"});
    options.end(rank, error);
    if (sleep(options.patience)) options.leave();
    return false;
  }

  bool waits(int rank) const {
    return options.waits().find(formatted("rank {} waits ", rank)) != std::string::npos;
  }

  std::string text_of(int rank, const HangJudge& judge) const {
    const RunningAction& at = judge.instruction();
    std::string text = formatted("{} hangs: it has been in instruction {} '{}' of step {} for {} s",
                                 options.place(rank), at.index, to_text(at.action), at.step,
                                 seconds_text(judge.stay()));
    if (const auto expected = judge.expected())
      text += formatted(", and the longest of its kind so far took {} s", seconds_text(*expected));
    return text;
  }

  const HangWatchOptions options;
  const Milliseconds named;
  std::map<int, Rank> ranks;
  SilenceClock clock;
  HangLimits::Duration learned{0};

  std::mutex mutex;
  std::condition_variable told;
  bool ending = false;
  std::thread thread;  // last, because it uses the other members
};

HangWatch::HangWatch(std::map<int, const FlightRecorder*> recorders, HangWatchOptions options)
    : impl_(std::make_unique<Impl>(recorders, std::move(options))) {}
HangWatch::~HangWatch() = default;

}  // namespace sluice
