#include "engine/fault_injection.h"

#include <ATen/core/grad_mode.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>

#include "base/format.h"
#include "base/log.h"
#include "base/places.h"
#include "base/text.h"
#include "job/launch_environment.h"
#include "plan/action_kinds.h"
#include "sluice/error.h"

namespace sluice {
namespace {

int restart_number() {
  const char* of_torchrun = std::getenv("TORCHELASTIC_RESTART_COUNT");
  return std::max(read_launch_environment().restart, of_torchrun ? std::atoi(of_torchrun) : 0);
}

void wait(const Fault& fault) {
  const std::chrono::milliseconds pause(fault.ms);
  if (!fault.busy) return std::this_thread::sleep_for(pause);
  const auto end = std::chrono::steady_clock::now() + pause;
  while (std::chrono::steady_clock::now() < end) {
  }
}

bool can_hold_nan(const at::Tensor& tensor) {
  return tensor.defined() && tensor.numel() > 0 && tensor.is_floating_point();
}

// Sets an element to NaN without autograd, so values saved for backward change too.
void spoil(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  at::Tensor element = tensor.variable_data();
  while (element.dim() > 0) element = element.select(0, 0);
  element.fill_(std::numeric_limits<double>::quiet_NaN());
}

// Adds a dimension, so that the receiver gets an unexpected shape.
void reshape(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const bool requires_grad = tensor.requires_grad();
  tensor.set_data(tensor.variable_data().unsqueeze(0));
  tensor.set_requires_grad(requires_grad);
}

}  // namespace

FaultInjector::FaultInjector(const std::vector<Fault>& faults, int rank) : rank_(rank) {
  for (const Fault& fault : faults) {
    if (!fault.rank || *fault.rank == rank) armed_.push_back({fault, fault.times, {}});
  }
}

FaultInjector::~FaultInjector() {
  if (failed_ || step_ == 0) return;
  for (const Armed& armed : armed_) {
    if (armed.left < armed.fault.times) continue;
    log_warning(formatted("fault: {} never fired: rank {} ran no matching instruction",
                          to_text(armed.fault), rank_));
  }
}

void FaultInjector::begin_step(std::int64_t step) { step_ = step > 0 ? step : ++unnumbered_; }

bool FaultInjector::acts(const Armed& armed, const Action& part) const {
  return armed.left > 0 && armed.fault.can_meet(part) &&
         armed.fault.matches(rank_, step_, index_, action_, part);
}

void FaultInjector::acted(Armed& armed, ActionKind part) {
  --armed.left;
  armed.at.emplace_back(step_, index_, part);
  say(armed.fault);
}

void FaultInjector::say(const Fault& fault) const {
  log_warning(formatted("fault: {} fires now: {}, step {}", to_text(fault),
                        instruction_place(rank_, index_, to_text(action_)), step_));
}

void FaultInjector::act(const Fault& fault) const {
  switch (fault.kind) {
    case FaultKind::kKill:
      std::raise(SIGKILL);
      break;
    case FaultKind::kStop:
      kill(getpid(), SIGSTOP);
      break;
    case FaultKind::kExit:
      _exit(1);
    case FaultKind::kThrow:
      throw std::runtime_error("injected fault");
    case FaultKind::kDelay:
      wait(fault);
      break;
    case FaultKind::kNan:
    case FaultKind::kCorrupt:
      break;
  }
}

void FaultInjector::begin(int index, const Action& action) {
  index_ = index;
  action_ = action;
  calls_ = 0;
  act_here(action, 0);
}

void FaultInjector::calling(const Action& action, const std::string& /*call*/) {
  act_here(action, ++calls_);
}

void FaultInjector::act_here(const Action& part, int call) {
  for (Armed& armed : armed_) {
    if (armed.fault.kind == FaultKind::kNan || armed.fault.kind == FaultKind::kCorrupt) continue;
    if (armed.fault.call != call) continue;
    bool here = acts(armed, part);
    detail::for_each_half(part, [&](const Action& half) { here = here || acts(armed, half); });
    if (!here) continue;
    acted(armed, part.kind);
    act(armed.fault);
  }
}

void FaultInjector::failed(int /*index*/, const Action& /*action*/) noexcept { failed_ = true; }

void FaultInjector::sending(const Action& action, const std::vector<at::Tensor>& tensors) {
  for (Armed& armed : armed_) {
    if (armed.fault.kind != FaultKind::kCorrupt || !acts(armed, action)) continue;
    const auto damaged = std::find_if(tensors.begin(), tensors.end(),
                                      [](const at::Tensor& tensor) { return tensor.defined(); });
    if (damaged == tensors.end()) continue;
    acted(armed, action.kind);
    reshape(*damaged);
  }
}

void FaultInjector::produced(const Action& action, const Values& /*outputs*/,
                             std::vector<at::Tensor>& handed_on) {
  for (Armed& armed : armed_) {
    if (armed.fault.kind != FaultKind::kNan) continue;
    const bool again = std::find(armed.at.begin(), armed.at.end(),
                                 std::tuple(step_, index_, action.kind)) != armed.at.end();
    if (!again && !acts(armed, action)) continue;
    const auto spoilt = std::find_if(handed_on.begin(), handed_on.end(), can_hold_nan);
    if (spoilt == handed_on.end()) continue;
    if (!again) acted(armed, action.kind);
    spoil(*spoilt);
  }
}

std::unique_ptr<FaultInjector> injected_faults(int rank, int num_ranks) {
  const char* const variable = std::getenv(kFaultVariable);
  if (!variable || !*variable) return nullptr;
  std::vector<Fault> faults = parse_faults(variable);
  const bool restarted = restart_number() > 0;
  std::erase_if(faults, [&](const Fault& fault) { return restarted && !fault.always; });
  for (const Fault& fault : faults) {
    if (fault.rank && *fault.rank >= num_ranks) {
      throw Error(ErrorKind::kUsage,
                  {.what = formatted("there is no rank {}: the run has {}", *fault.rank,
                                     counted(num_ranks, "rank")),
                   .where = kFaultVariable,
                   .remedy = "name a rank from 0 to " + std::to_string(num_ranks - 1)});
    }
    if (rank == 0) log_warning("fault: will inject " + to_text(fault));
  }
  if (faults.empty()) return nullptr;
  return std::make_unique<FaultInjector>(faults, rank);
}

}  // namespace sluice
