#include "plan/fault.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "base/format.h"
#include "base/nearest_name.h"
#include "base/text.h"
#include "base/words.h"
#include "plan/action_kinds.h"
#include "sluice/error.h"

namespace sluice {
namespace {

const detail::Words<FaultKind>& kinds() {
  static const detail::Words<FaultKind> table = {
      {"kill", FaultKind::kKill},      {"stop", FaultKind::kStop},   {"exit", FaultKind::kExit},
      {"throw", FaultKind::kThrow},    {"delay", FaultKind::kDelay}, {"nan", FaultKind::kNan},
      {"corrupt", FaultKind::kCorrupt}};
  return table;
}

const std::vector<std::string>& selectors() {
  static const std::vector<std::string> names = {"rank",       "step",   "instruction", "stage",
                                                 "microbatch", "action", "call",        "ms",
                                                 "busy",       "times",  "always"};
  return names;
}

constexpr const char* kExample = "write KIND:rank=R,step=S,instruction=I, as kill:rank=1,step=3";

[[noreturn]] void refuse_fault(const std::string& what, const std::string& remedy) {
  throw Error(ErrorKind::kUsage, {.what = what, .where = kFaultVariable, .remedy = remedy});
}

template <typename Integer>
Integer number(const std::string& name, std::string_view text, std::int64_t least) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (error != std::errc() || rest != end || value < least || value > kMost) {
    refuse_fault("'" + std::string(text) + "' is not a value of '" + name + "'",
                 formatted("give a whole number from {} to {}", least, kMost));
  }
  return static_cast<Integer>(value);
}

// Returns "SEND_F" for "1SEND_F3", "OVERLAP_F_B" for an overlapped pair.
std::string kind_word(const std::string& action) {
  if (action.starts_with('(')) return action.substr(action.rfind(')') + 1);
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto first = std::find_if_not(action.begin(), action.end(), is_digit);
  const auto last = std::find_if_not(action.rbegin(), action.rend(), is_digit).base();
  return first < last ? std::string(first, last) : std::string();
}

const std::vector<std::string>& action_kinds() {
  static const std::vector<std::string> words = [] {
    std::vector<std::string> all;
    for (int k = static_cast<int>(ActionKind::kForward);
         k <= static_cast<int>(ActionKind::kOptimizerStep); ++k) {
      const auto kind = static_cast<ActionKind>(k);
      if (kind == ActionKind::kOverlap) {
        all.emplace_back("OVERLAP_F_B");
      } else if (kind == ActionKind::kReduceTied) {
        all.push_back(kind_word(to_text(Action::reduce_tied(0))));
      } else {
        all.push_back(kind_word(to_text(Action::make(kind, 0, 0))));
      }
    }
    return all;
  }();
  return words;
}

std::string action_selector(const std::string& text) {
  const auto& words = action_kinds();
  if (std::find(words.begin(), words.end(), text) != words.end()) return text;
  try {
    const Action action = parse_action(text);
    if (action.kind != ActionKind::kIdle) return to_text(action);
  } catch (const Error&) {
  }
  refuse_fault("'" + text + "' is not an action",
               "write one as in a schedule's CSV, 1F0, or a kind: " + suggest_name(text, words));
}

void set(Fault& fault, const std::string& name, const std::string& value) {
  if (name == "rank") fault.rank = number<int>(name, value, 0);
  if (name == "step") fault.step = number<std::int64_t>(name, value, 1);
  if (name == "instruction") fault.instruction = number<int>(name, value, 0);
  if (name == "stage") fault.stage = number<int>(name, value, 0);
  if (name == "microbatch") fault.microbatch = number<int>(name, value, 0);
  if (name == "call") fault.call = number<int>(name, value, 1);
  if (name == "action") fault.action = action_selector(value);
  if (name == "ms") fault.ms = number<std::int64_t>(name, value, 0);
  if (name == "times") fault.times = number<std::int64_t>(name, value, 1);
  if (name == "busy") fault.busy = true;
  if (name == "always") fault.always = true;
}

// Ignores separators within parentheses, as in "(0F7;7B3)OVERLAP_F_B".
std::vector<std::string> split_outside(std::string_view text, char separator) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : text) {
    depth += (c == '(') - (c == ')');
    if (c == separator && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

void add_selector(Fault& fault, const std::string& text, std::set<std::string>& seen) {
  const std::size_t equals = text.find('=');
  const std::string name(trim(text.substr(0, equals)));
  const auto& names = selectors();
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    refuse_fault(name.empty() ? "a selector is empty" : "unknown selector '" + name + "'",
                 suggest_name(name, names));
  }
  if (!seen.insert(name).second) refuse_fault("'" + name + "' is given twice", "leave one of them");
  const bool is_flag = name == "busy" || name == "always";
  if (is_flag != (equals == std::string::npos)) {
    refuse_fault(is_flag ? "'" + name + "' takes no value" : "'" + name + "' has no value",
                 "write " + name + (is_flag ? "" : "=VALUE"));
  }
  if ((name == "ms" || name == "busy") && fault.kind != FaultKind::kDelay)
    refuse_fault("'" + name + "' applies to delay alone", "leave it out");
  if (name == "call" && (fault.kind == FaultKind::kNan || fault.kind == FaultKind::kCorrupt))
    refuse_fault("'call' does not apply to nan and corrupt", "leave it out");
  set(fault, name, is_flag ? "" : std::string(trim(text.substr(equals + 1))));
}

bool can_meet_selected(const Fault& fault) {
  if (fault.action.empty()) return true;
  for (int k = static_cast<int>(ActionKind::kForward);
       k <= static_cast<int>(ActionKind::kRecvBackward); ++k) {
    const Action action = Action::make(static_cast<ActionKind>(k), 0, 0);
    if (action.kind != ActionKind::kOverlap &&
        kind_word(to_text(action)) == kind_word(fault.action))
      return fault.can_meet(action);
  }
  return fault.kind != FaultKind::kCorrupt &&
         (fault.kind != FaultKind::kNan || kind_word(fault.action) == "OVERLAP_F_B");
}

Fault parse_fault(const std::string& text) {
  Fault fault;
  const std::size_t colon = text.find(':');
  const std::string kind(trim(text.substr(0, colon)));
  const std::vector<std::string> names = detail::words_in(kinds());
  if (std::find(names.begin(), names.end(), kind) == names.end()) {
    refuse_fault(kind.empty() ? "a fault is empty" : "unknown fault '" + kind + "'",
                 kind.empty() ? kExample : suggest_name(kind, names));
  }
  fault.kind = detail::meaning_of(kinds(), kind);
  if (colon == std::string::npos) return fault;
  std::set<std::string> seen;
  for (const std::string& selector : split_outside(text.substr(colon + 1), ','))
    add_selector(fault, selector, seen);
  if (!can_meet_selected(fault)) {
    refuse_fault("'" + kind + "' does not act at action=" + fault.action,
                 fault.kind == FaultKind::kNan
                     ? "name an F, B or I, which hands values on"
                     : "name a SEND_F or SEND_B, which hands a message over");
  }
  return fault;
}

}  // namespace

bool Fault::can_meet(const Action& part) const {
  if (kind == FaultKind::kCorrupt) return detail::is_send(part.kind);
  if (kind != FaultKind::kNan) return true;
  return part.kind == ActionKind::kForward || detail::makes_input_gradient(part.kind);
}

bool Fault::matches(int at_rank, std::int64_t at_step, int at_index, const Action& whole,
                    const Action& part) const {
  if (rank && *rank != at_rank) return false;
  if (step && *step != at_step) return false;
  if (instruction && *instruction != at_index) return false;
  if (stage && *stage != part.stage) return false;
  if (microbatch && *microbatch != part.microbatch) return false;
  if (action.empty()) return true;
  for (const Action& of : {whole, part}) {
    const std::string text = sluice::to_text(of);
    if (action == text || action == kind_word(text)) return true;
  }
  return false;
}

std::vector<Fault> parse_faults(std::string_view text) {
  std::vector<Fault> faults;
  for (const std::string& part : split_outside(text, ';')) faults.push_back(parse_fault(part));
  return faults;
}

std::string to_text(const Fault& fault) {
  std::vector<std::string> places;
  const auto add = [&](const char* name, const auto& value) {
    if (value) places.push_back(formatted("{} {}", name, *value));
  };
  add("rank", fault.rank);
  add("step", fault.step);
  add("instruction", fault.instruction);
  add("stage", fault.stage);
  add("microbatch", fault.microbatch);
  if (!fault.action.empty()) places.push_back("action " + fault.action);
  if (fault.call > 0) places.push_back(formatted("call {}", fault.call));
  std::string text = detail::word_of(kinds(), fault.kind);
  if (fault.kind == FaultKind::kDelay) {
    text += formatted(" of {} ms", fault.ms);
    if (fault.busy) text += ", computing,";
  }
  text += " at " + (places.empty() ? "the first instruction of every rank" : join(places, ", "));
  if (fault.times > 1) text += formatted(", {} times", fault.times);
  if (fault.always) text += ", also after restarts";
  return text;
}

}  // namespace sluice
