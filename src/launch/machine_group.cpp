#include "launch/machine_group.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "base/format.h"
#include "base/log.h"
#include "base/packer.h"
#include "base/text.h"
#include "job/socket.h"
#include "job/store_connection.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kMachineLook{20};
// Time for the other machines to read the verdict before the store ends.
constexpr milliseconds kVerdictReadTime{2000};
constexpr milliseconds kSayWhoDidNotCome{5000};
constexpr const char* kVerdict = "launch/verdict";
constexpr milliseconds kMachineTry{500}, kNextTry{200};
// How long the previous attempt's store may still be up.
constexpr milliseconds kEarlierAttempt{15'000};

bool never() { return false; }

}  // namespace

bool is_retryable(int exit_code) {
  return exit_code == static_cast<int>(ErrorKind::kInternal) ||
         exit_code == static_cast<int>(ErrorKind::kPeer) ||
         exit_code == static_cast<int>(ErrorKind::kMemory) || exit_code > 128;
}

MachineGroup::MachineGroup(const StoreAddress& address, MachineGroupOptions options)
    : options_(std::move(options)),
      address_(address),
      notice_(options_.server, kSayWhoDidNotCome),
      restart_(options_.restart) {
  const Deadline deadline = deadline_in(options_.meet);
  const std::string own =
      formatted("{} machines of {}", options_.num_machines, counted(options_.processes, "process"));
  come(deadline);
  client_->set_reply_time(options_.heartbeat);
  client_->set(key("shape", options_.machine), own);
  try {
    require_matching(own, deadline);
  } catch (const Error& error) {
    client_->set(key("compared", options_.machine), "");
    if (options_.machine == 0 && error.kind() == ErrorKind::kUsage) await_others("compared");
    throw;
  }
  client_->set(key("compared", options_.machine), "");
}

// A restarted launcher does not know the current attempt, so it tries all attempts' secrets.
void MachineGroup::come(Deadline deadline) {
  const bool may_repeat = options_.max_restarts > 0;
  const Deadline begin = Clock::now();
  const milliseconds patience = kEarlierAttempt + (may_repeat ? options_.heartbeat : kMachineLook);
  std::vector<int> restarts = {options_.restart};
  for (int other = 0; options_.machine > 0 && other <= options_.max_restarts; ++other)
    if (other != options_.restart) restarts.push_back(other);
  for (;;) {
    std::optional<Error> reason;
    bool is_there = false;
    for (const int restart : restarts) {
      try {
        client_ = std::make_unique<StoreClient>(address_, options_.secret_of(restart), kMachineTry);
        restart_ = restart;
        if (client_->add(key("arrived", options_.machine), 1) == 1) return;
        is_there = true;
        reason.emplace(
            ErrorKind::kUsage,
            ErrorText{.what = formatted("machine {} has already joined", options_.machine),
                      .where = options_.where,
                      .remedy = "give every machine a different --node-rank"});
        if (!may_repeat) throw *reason;
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::kUsage) throw;
        if (!is_there) reason = error;
        if (error.remedy() != kSecretRemedy) break;
        is_there = true;
      }
    }
    const Deadline now = Clock::now();
    if (now >= deadline || (is_there && now - begin > patience)) throw *reason;
    options_.while_waiting();
    notice_.tick([&] { return "machine 0 at " + options_.where + " (" + reason->fact() + ")"; });
    std::this_thread::sleep_for(is_there ? kNextTry : kMachineLook);
  }
}

void MachineGroup::require_matching(const std::string& own, Deadline deadline) {
  const auto says = [this] {
    notice_.tick([this] { return missing_text() + " at " + options_.where; });
    return false;
  };
  for (int machine = 0; machine < options_.num_machines; ++machine) {
    if (!await(key("shape", machine), deadline, says)) fail_missing();
    const std::string other = client_->get(key("shape", machine), milliseconds(0));
    if (other == own) continue;
    throw Error(ErrorKind::kUsage,
                {.what = formatted("machine {} was started for {}, but this one for {}", machine,
                                   other, own),
                 .where = options_.where,
                 .remedy = "give -n and --nnodes the same value on every machine"});
  }
}

std::vector<std::string> MachineGroup::missing() {
  std::vector<std::string> machines;
  for (int machine = 0; machine < options_.num_machines; ++machine)
    if (!client_->has({key("shape", machine)})) machines.push_back(std::to_string(machine));
  return machines;
}

std::string MachineGroup::missing_text() {
  const std::vector<std::string> machines = missing();
  return formatted("{}{} of {}", machines.size() == 1 ? "machine " : "machines ",
                   join(machines, ", "), options_.num_machines);
}

void MachineGroup::fail_missing() {
  throw Error(ErrorKind::kPeer,
              {.what = missing_text() + " did not join within " +
                       shortest(static_cast<double>(options_.meet.count()) / 1000) + " s" +
                       notice_.refused_text(),
               .where = options_.where,
               .remedy = "check that 'sluice launch' was started there with the same secret, or "
                         "raise comm.init_timeout_seconds"});
}

void MachineGroup::watch(std::function<void()> on_loss) {
  if (options_.machine == 0) return;
  ControlLineOptions line;
  line.process = line_of(options_.machine);
  line.name = formatted("the launcher of machine {}, pid {} on {}", options_.machine, ::getpid(),
                        machine_name());
  line.heartbeat = options_.heartbeat;
  line.on_failure = [on_loss = std::move(on_loss)](const JobFailure& failure) {
    if (failure.kind == ErrorKind::kPeer) on_loss();
  };
  line_ = std::make_unique<ControlLine>(address_, options_.secret_of(restart_), std::move(line));
}

void MachineGroup::await_others(const std::string& what) {
  const Deadline deadline = deadline_in(kVerdictReadTime);
  for (int machine = 1; machine < options_.num_machines; ++machine)
    await(key(what, machine), deadline, never);
}

// Polls, because a failed job ends every wait on the store.
bool MachineGroup::await(const std::string& wanted, Deadline deadline,
                         const std::function<bool()>& no_use) {
  while (!client_->has({wanted})) {
    if (Clock::now() >= deadline || no_use()) return false;
    options_.while_waiting();
    std::this_thread::sleep_for(kMachineLook);
  }
  return true;
}

bool MachineGroup::is_lost(int machine) const {
  return options_.server && options_.server->loss_of(line_of(machine));
}

std::string MachineGroup::key(const std::string& what, int machine) const {
  return formatted("launch/{}/{}", what, machine);
}

bool MachineGroup::has_key_or_lost_machine0(const std::string& wanted) noexcept {
  try {
    return has_lost_machine0() || client_->has({wanted});
  } catch (const Error&) {
    return true;
  }
}

Verdict MachineGroup::decide(const JobOutcome& here, int failed_process, bool restarts_left) {
  Verdict verdict{.exit_code = here.exit_code, .what = here.what};
  bool stopped = here.stopped, all_came = true;
  const Deadline deadline = deadline_in(options_.agree);
  for (int machine = 1; machine < options_.num_machines; ++machine) {
    if (!await(key("ended", machine), deadline, [&] { return is_lost(machine); })) {
      all_came = false;
      if (verdict.exit_code == 0) verdict.exit_code = static_cast<int>(ErrorKind::kPeer);
      verdict.what = formatted("machine {} is lost", machine);
      if (failed_process != line_of(machine))
        log_warning(options_.server->loss_of(line_of(machine)).value_or(verdict.what));
      continue;
    }
    Unpacker said(client_->get(key("ended", machine), milliseconds(0)), "how a machine ended");
    const int exit_code = said.take<int>();
    stopped = said.take<bool>() || stopped;
    const std::string what = said.take<std::string>();
    const bool failed_first =
        failed_process >= 0 && failed_process / options_.processes == machine && exit_code != 0;
    if (all_came && (failed_first || verdict.exit_code == 0)) {
      verdict.exit_code = exit_code;
      verdict.what = what;
    }
  }
  verdict.again = !stopped && restarts_left && is_retryable(verdict.exit_code);
  client_->set(kVerdict,
               Packer().add(verdict.exit_code).add(verdict.again).add(verdict.what).bytes());
  if (all_came) await_others("heard");
  return verdict;
}

std::optional<Verdict> MachineGroup::hear(const JobOutcome& here) {
  const auto no_use = [this] { return has_lost_machine0(); };
  try {
    if (no_use()) return std::nullopt;
    client_->set(key("ended", options_.machine),
                 Packer().add(here.exit_code).add(here.stopped).add(here.what).bytes());
    if (!await(kVerdict, deadline_in(options_.agree + kVerdictReadTime), no_use))
      return std::nullopt;
    Unpacker said(client_->get(kVerdict, milliseconds(0)), "the verdict of machine 0");
    Verdict verdict;
    verdict.exit_code = said.take<int>();
    verdict.again = said.take<bool>();
    verdict.what = said.take<std::string>();
    if (line_) line_->finish();
    client_->set(key("heard", options_.machine), "");
    return verdict;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace sluice
