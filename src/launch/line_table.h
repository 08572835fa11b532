// The living processes of a job, as the server of its store sees them, and the reports on those
// that have ended.
//
// Owns: the judgement. Does not own: connections, clocks (every call is given the time).
//
// Invariants:
//  1. A process is lost when its line ends without finish, or is silent for longer than its
//     heartbeat, of counted time (judge_clock.h).
//  2. An end is judged after `grace`, or sooner when all others have reported what they wait for,
//     if there is no grace: the message names which process waits for which.
// Thread-safety: for one thread.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "launch/job_failure.h"

namespace sluice {

class LineTable {
 public:
  using Clock = std::chrono::steady_clock;
  struct Line {
    int process = 0;
    std::string name;
    std::vector<int> ranks;
    std::chrono::milliseconds heartbeat{5000};
    std::string status;
    Clock::duration last_heard{0};              // counted
    std::optional<Clock::time_point> judge_at;  // its end is known, not yet judged
    bool has_answered = false;                  // since it was last asked
  };

  explicit LineTable(std::chrono::milliseconds grace) : grace_(grace) {}

  // A failure where the process has a line already.
  std::optional<JobFailure> open(Line line, Clock::duration counted);
  void heard(int process, const std::string& status, Clock::duration counted);
  // It ended well.
  void finish(int process) { lines_.erase(process); }
  // Without finish().
  void end(int process, Clock::time_point now);
  // True if the end of a process waits to be judged. Then others should be asked for their status.
  bool has_suspect() const;
  // The first that is lost, if any; it is forgotten then.
  std::optional<JobFailure> judge(Clock::time_point now, Clock::duration counted);
  // Somebody else knows how this process ended: "was ended by signal 9 (Killed)".
  JobFailure lost(int process, const std::string& how);

  // The waits of living processes for this rank: "rank 0 waits for 1RECV_B3 of step 4 from rank 2".
  std::string who_waits_for(int rank) const { return what_is_waited_for({rank}, /*but=*/-1); }

  bool empty() const { return lines_.empty(); }
  bool lives(int process) const;
  bool knows(int process) const { return lines_.contains(process); }
  // The living process with the lowest number that is none of these; -1 without.
  int lowest_living(int but, int and_but = -1) const;
  // The shortest heartbeat of all that live; nothing without lines.
  std::optional<std::chrono::milliseconds> shortest_heartbeat() const;

 private:
  // The statuses that name one of these ranks as the one that is waited for; without any, of all.
  std::string what_is_waited_for(const std::vector<int>& ranks, int but) const;
  JobFailure failure_of(const Line& line, const std::string& how, const std::string& remedy) const;

  const std::chrono::milliseconds grace_;
  std::map<int, Line> lines_;
};

// The words for lost processes, also where the server itself is one. "is lost: it has been silent
// for more than 5 s"
std::string silence_text(std::chrono::milliseconds heartbeat);
// And of a rank that hangs while its process lives. waits: who waits for it, "" for nobody known.
std::string hung_text(const std::string& what, const std::string& waits, const std::string& remedy);
std::string remedy_for_end();
std::string remedy_for_silence();

}  // namespace sluice
