#include "launch/node_group.h"

#include <algorithm>
#include <charconv>
#include <thread>
#include <utility>
#include <vector>

#include "base/text.h"
#include "base/wire.h"
#include "launch/socket.h"
#include "launch/store_connection.h"
#include "sluice/error.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr milliseconds kNodeLook{20};
// For the others to hear the verdict, or see the difference, before the store ends.
constexpr milliseconds kHeard{2000};
constexpr const char* kVerdict = "launch/verdict";
constexpr milliseconds kNodeTry{500};
// The store of the attempt before, which has another secret, may still be there.
constexpr milliseconds kEarlierAttempt{15'000};

std::unique_ptr<StoreClient> connect(const StoreAddress& address, const std::string& secret,
                                     Deadline deadline, const std::function<void()>& tick) {
  for (const Deadline begin = Clock::now();; tick()) {
    try {
      return std::make_unique<StoreClient>(address, secret, kNodeTry);
    } catch (const Error& error) {
      const bool refused = error.remedy() == kSecretRemedy;
      const auto waited = Clock::now() - begin;
      if (Clock::now() >= deadline || (refused && waited > kEarlierAttempt)) throw;
    }
    std::this_thread::sleep_for(kNodeLook);
  }
}

}  // namespace

bool is_worth_repeating(int exit_code) {
  return exit_code == static_cast<int>(ErrorKind::kInternal) ||
         exit_code == static_cast<int>(ErrorKind::kPeer) ||
         exit_code == static_cast<int>(ErrorKind::kMemory) || exit_code > 128;
}

NodeGroup::NodeGroup(const StoreAddress& address, const std::string& secret,
                     NodeGroupOptions options)
    : options_(std::move(options)) {
  const Deadline deadline = deadline_in(options_.meet);
  client_ = connect(address, secret, deadline, options_.while_waiting);
  const std::string where = host_and_port(address.host, address.port);
  const std::string own =
      std::to_string(options_.num_nodes) + " nodes of " + counted(options_.processes, "process");
  if (client_->add(key("arrived", options_.node), 1) > 1) {
    throw Error(ErrorKind::kUsage,
                {.what = "node " + std::to_string(options_.node) + " has come already",
                 .where = where,
                 .remedy = "give every machine a --node-rank of its own"});
  }
  client_->set(key("shape", options_.node), own);
  try {
    require_alike(own, where, deadline);
  } catch (const Error& error) {
    client_->set(key("compared", options_.node), "");
    if (options_.node == 0 && error.kind() == ErrorKind::kUsage) await_others("compared");
    throw;
  }
  client_->set(key("compared", options_.node), "");
}

void NodeGroup::require_alike(const std::string& own, const std::string& where,
                              std::chrono::steady_clock::time_point deadline) {
  std::vector<std::string> missing;
  for (int node = 0; node < options_.num_nodes; ++node) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (!await(key("shape", node), std::max(left, milliseconds(0)))) {
      missing.push_back(std::to_string(node));
      continue;
    }
    const std::string other = client_->get(key("shape", node), milliseconds(0));
    if (other == own) continue;
    throw Error(ErrorKind::kUsage,
                {.what = "node " + std::to_string(node) + " was started for " + other +
                         ", this one for " + own,
                 .where = where,
                 .remedy = "give -n and --nnodes the same value on every machine"});
  }
  if (missing.empty()) return;
  throw Error(ErrorKind::kPeer,
              {.what = (missing.size() == 1 ? "node " : "nodes ") + join(missing, ", ") + " of " +
                       std::to_string(options_.num_nodes) + " did not come within " +
                       std::to_string(options_.meet.count() / 1000) + " s",
               .where = where,
               .remedy = "look at whether 'sluice launch' was started there"});
}

void NodeGroup::await_others(const std::string& what) {
  const Deadline deadline = deadline_in(kHeard);
  for (int node = 1; node < options_.num_nodes; ++node) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    await(key(what, node), std::max(left, milliseconds(0)));
  }
}

// A store whose job has failed ends every wait: asked again and again, it answers.
bool NodeGroup::await(const std::string& wanted, milliseconds timeout) {
  const Deadline deadline = deadline_in(timeout);
  while (!client_->has({wanted})) {
    if (Clock::now() >= deadline) return false;
    options_.while_waiting();
    std::this_thread::sleep_for(kNodeLook);
  }
  return true;
}

std::string NodeGroup::key(const std::string& what, int node) const {
  return "launch/" + what + "/" + std::to_string(node);
}

Verdict NodeGroup::decide(const JobOutcome& here, int failed_process, bool restarts_left) {
  Verdict verdict{.exit_code = here.exit_code, .what = here.what};
  bool stopped = here.stopped, all_came = true;
  const Deadline deadline = deadline_in(options_.agree);
  for (int node = 1; node < options_.num_nodes; ++node) {
    const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
    if (!await(key("ended", node), std::max(left, milliseconds(0)))) {
      all_came = false;
      if (verdict.exit_code == 0) {
        verdict.exit_code = static_cast<int>(ErrorKind::kPeer);
        verdict.what = "node " + std::to_string(node) + " is lost";
      }
      continue;
    }
    WireReader said(client_->get(key("ended", node), milliseconds(0)), "how a node ended");
    const int exit_code = said.take<int>();
    stopped = said.take<bool>() || stopped;
    const std::string what = said.take<std::string>();
    const bool failed_first =
        failed_process >= 0 && failed_process / options_.processes == node && exit_code != 0;
    if (failed_first || verdict.exit_code == 0) {
      verdict.exit_code = exit_code;
      verdict.what = what;
    }
  }
  verdict.again = all_came && !stopped && restarts_left && is_worth_repeating(verdict.exit_code);
  client_->set(kVerdict,
               WireWriter().add(verdict.exit_code).add(verdict.again).add(verdict.what).bytes());
  if (all_came) await_others("heard");
  return verdict;
}

std::optional<Verdict> NodeGroup::hear(const JobOutcome& here) {
  try {
    client_->set(key("ended", options_.node),
                 WireWriter().add(here.exit_code).add(here.stopped).add(here.what).bytes());
    if (!await(kVerdict, options_.agree + kHeard)) return std::nullopt;
    WireReader said(client_->get(kVerdict, milliseconds(0)), "the verdict of node 0");
    Verdict verdict;
    verdict.exit_code = said.take<int>();
    verdict.again = said.take<bool>();
    verdict.what = said.take<std::string>();
    client_->set(key("heard", options_.node), "");
    return verdict;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace sluice
