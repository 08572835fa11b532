// Decides which processes of a job are lost, from their control lines (control_line.h). A line that
// ended early counts as lost after `grace`. Without grace it counts once all others have sent their
// status, which the message quotes.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "job/job_failure.h"

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
    Clock::duration last_heard{0};  // in SilenceClock time
    std::optional<Clock::time_point>
        judge_at;  // set when the line has ended: when it counts as lost
    bool has_answered = false;
  };

  explicit LineTable(std::chrono::milliseconds grace) : grace_(grace) {}

  // Returns a failure if the process already has a line.
  std::optional<JobFailure> open(Line line, Clock::duration counted);
  void heard(int process, const std::string& status, Clock::duration counted);
  void finish(int process) { lines_.erase(process); }
  void end(int process, Clock::time_point now);
  // True if a process's connection (line) has ended, but it is still open whether the process is
  // lost. The server should then request the statuses of the other processes, which judge() needs
  // for its decision.
  bool has_suspect() const;
  std::optional<JobFailure> judge(Clock::time_point now, Clock::duration counted);
  JobFailure lost(int process, const std::string& how);

  // "rank 0 waits for 1RECV_B3 of step 4 from rank 2"
  std::string who_waits_for(int rank) const { return statuses_waiting_for({rank}, /*but=*/-1); }

  bool empty() const { return lines_.empty(); }
  bool lives(int process) const;
  bool knows(int process) const { return lines_.contains(process); }
  // Returns the lowest living process except these two, or -1.
  int lowest_alive(int but, int and_but = -1) const;
  std::optional<std::chrono::milliseconds> shortest_heartbeat() const;

 private:
  // Returns the statuses that wait for one of these ranks. If none does, returns all.
  std::string statuses_waiting_for(const std::vector<int>& ranks, int but) const;
  JobFailure failure_of(const Line& line, const std::string& how, const std::string& remedy) const;

  const std::chrono::milliseconds grace_;
  std::map<int, Line> lines_;
};

// "is lost: it has been silent for more than 5 s"
std::string silence_text(std::chrono::milliseconds heartbeat);
std::string hung_text(const std::string& what, const std::string& waits, const std::string& remedy);
std::string remedy_for_end();
std::string remedy_for_silence();

}  // namespace sluice
