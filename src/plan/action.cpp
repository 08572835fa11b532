#include "sluice/parts/action.h"

#include <array>
#include <cassert>
#include <charconv>
#include <optional>
#include <utility>

#include "base/text.h"
#include "plan/action_kinds.h"
#include "sluice/error.h"

namespace sluice {
namespace {

enum class Target { kNone, kStage, kGroup };

enum class Microbatch { kNone, kOptional, kRequired };

struct Spelling {
  ActionKind kind;
  std::string_view word;
  Target target;
  Microbatch microbatch;
};

constexpr std::array<Spelling, 18> kSpellings = {{
    {ActionKind::kForward, "F", Target::kStage, Microbatch::kRequired},
    {ActionKind::kBackward, "B", Target::kStage, Microbatch::kRequired},
    {ActionKind::kBackwardInput, "I", Target::kStage, Microbatch::kRequired},
    {ActionKind::kBackwardWeight, "W", Target::kStage, Microbatch::kRequired},
    {ActionKind::kSendForward, "SEND_F", Target::kStage, Microbatch::kRequired},
    {ActionKind::kRecvForward, "RECV_F", Target::kStage, Microbatch::kRequired},
    {ActionKind::kSendBackward, "SEND_B", Target::kStage, Microbatch::kRequired},
    {ActionKind::kRecvBackward, "RECV_B", Target::kStage, Microbatch::kRequired},
    {ActionKind::kUnshard, "UNSHARD", Target::kStage, Microbatch::kNone},
    {ActionKind::kReshard, "RESHARD", Target::kStage, Microbatch::kNone},
    {ActionKind::kReduceGrad, "REDUCE_GRAD", Target::kStage, Microbatch::kOptional},
    {ActionKind::kReduceTied, "REDUCE_TIED", Target::kGroup, Microbatch::kNone},
    {ActionKind::kReduceLoss, "REDUCE_LOSS", Target::kNone, Microbatch::kNone},
    {ActionKind::kGatherOutputs, "GATHER_OUTPUTS", Target::kNone, Microbatch::kNone},
    {ActionKind::kReduceNorm, "REDUCE_NORM", Target::kNone, Microbatch::kNone},
    {ActionKind::kUpdate, "UPDATE", Target::kStage, Microbatch::kNone},
    {ActionKind::kPartialNorm, "PARTIAL_NORM", Target::kStage, Microbatch::kNone},
    {ActionKind::kOptimizerStep, "OPTIMIZER_STEP", Target::kNone, Microbatch::kNone},
}};
constexpr std::string_view kOverlapWord = "OVERLAP_F_B";

const Spelling& spelling_of(ActionKind kind) {
  for (const Spelling& spelling : kSpellings) {
    if (spelling.kind == kind) return spelling;
  }
  throw Error(ErrorKind::kInternal, {.what = "this kind of action has no text form"});
}

void append_number(std::int32_t number, std::string& out) {
  char digits[16];
  const auto end = std::to_chars(digits, digits + sizeof(digits), number).ptr;
  out.append(digits, end);
}

[[noreturn]] void refuse(std::string_view text, const std::string& reason) {
  throw Error(ErrorKind::kInput,
              {.what = "'" + std::string(text) + "' is not an action: " + reason,
               .remedy = "write {stage}{action}{microbatch}, as 2F0, 1SEND_F3, 0UNSHARD or "
                         "(0F7;7B3)OVERLAP_F_B"});
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::optional<std::int32_t> take_number(std::string_view whole, std::string_view& rest) {
  std::size_t length = 0;
  while (length < rest.size() && is_digit(rest[length])) ++length;
  if (length == 0) return std::nullopt;
  std::int32_t number = 0;
  const auto result = std::from_chars(rest.data(), rest.data() + length, number);
  if (result.ec != std::errc()) {
    refuse(whole, "it has a number above 2147483647");
  }
  rest.remove_prefix(length);
  return number;
}

Action parse_single(std::string_view text) {
  std::string_view rest = text;
  const std::optional<std::int32_t> target = take_number(text, rest);
  std::size_t length = 0;
  while (length < rest.size() && !is_digit(rest[length])) ++length;
  const std::string_view word = rest.substr(0, length);
  rest.remove_prefix(length);
  const std::optional<std::int32_t> microbatch = take_number(text, rest);

  for (const Spelling& spelling : kSpellings) {
    if (word != spelling.word) continue;
    if (!rest.empty()) refuse(text, "'" + std::string(rest) + "' follows the action");
    const bool has_target = spelling.target != Target::kNone;
    if (has_target && !target) {
      const std::string what = spelling.target == Target::kGroup ? "tie group" : "stage";
      refuse(text, "no " + what + " before '" + std::string(word) + "'");
    }
    if (spelling.target == Target::kGroup && *target > Action::kMaxGroup) {
      refuse(text, "tie groups go up to " + std::to_string(Action::kMaxGroup));
    }
    if (!has_target && target) refuse(text, std::string(word) + " takes no stage");
    if (spelling.microbatch == Microbatch::kRequired && !microbatch) {
      refuse(text, "no microbatch after '" + std::string(word) + "'");
    }
    if (spelling.microbatch == Microbatch::kNone && microbatch) {
      refuse(text, std::string(word) + " takes no microbatch");
    }
    if (spelling.target == Target::kGroup) return Action::reduce_tied(*target);
    return Action::make(spelling.kind, target.value_or(-1), microbatch.value_or(-1));
  }
  if (word.empty()) refuse(text, "no action after the stage");
  if (word == kOverlapWord) refuse(text, "OVERLAP_F_B needs its pair, as (0F7;7B3)OVERLAP_F_B");
  refuse(text, "unknown action '" + std::string(word) + "'");
}

Action parse_pair(std::string_view text) {
  const std::size_t close = text.find(')');
  if (close == std::string_view::npos) refuse(text, "the pair is not closed");
  if (trim(text.substr(close + 1)) != kOverlapWord) refuse(text, "a pair must be OVERLAP_F_B");
  const std::string_view inside = text.substr(1, close - 1);
  const std::size_t separator = inside.find(';');
  if (separator == std::string_view::npos ||
      inside.find(';', separator + 1) != std::string_view::npos) {
    refuse(text, "a pair has two parts, with ';' between them");
  }
  const Action forward = parse_single(trim(inside.substr(0, separator)));
  const Action backward = parse_single(trim(inside.substr(separator + 1)));
  if (forward.kind != ActionKind::kForward) refuse(text, "the first of a pair must be F");
  if (backward.kind != ActionKind::kBackward && backward.kind != ActionKind::kBackwardInput) {
    refuse(text, "the second of a pair must be B or I");
  }
  return Action::overlap(forward, backward);
}

}  // namespace

Action Action::overlap(const Action& forward, const Action& backward) {
  assert(forward.kind == ActionKind::kForward);
  assert(backward.kind == ActionKind::kBackward || backward.kind == ActionKind::kBackwardInput);
  Action action = make(ActionKind::kOverlap, forward.stage, forward.microbatch);
  action.backward_kind = backward.kind;
  action.backward_stage = backward.stage;
  action.backward_microbatch = backward.microbatch;
  return action;
}

AxisSet axes_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::kSendForward:
    case ActionKind::kRecvForward:
    case ActionKind::kSendBackward:
    case ActionKind::kRecvBackward:
    case ActionKind::kReduceTied:
    case ActionKind::kGatherOutputs:
      return {Axis::kPp};
    case ActionKind::kUnshard:
    case ActionKind::kReshard:
      return {Axis::kDpShard};
    case ActionKind::kReduceGrad:
    case ActionKind::kUpdate:
      return {Axis::kDpReplicate, Axis::kDpShard};
    case ActionKind::kReduceLoss:
    case ActionKind::kReduceNorm:
      return {Axis::kPp, Axis::kDpReplicate, Axis::kDpShard, Axis::kCp, Axis::kTp};
    default:
      return {};
  }
}

void append_text(const Action& action, std::string& out) {
  if (action.kind == ActionKind::kIdle) return;
  if (action.kind == ActionKind::kOverlap) {
    out += '(';
    append_text(action.overlap_forward(), out);
    out += ';';
    append_text(action.overlap_backward(), out);
    out += ')';
    out += kOverlapWord;
    return;
  }
  const Spelling& spelling = spelling_of(action.kind);
  if (spelling.target == Target::kStage) append_number(action.stage, out);
  if (spelling.target == Target::kGroup) append_number(action.group, out);
  out += spelling.word;
  if (action.microbatch >= 0) append_number(action.microbatch, out);
}

std::string to_text(const Action& action) {
  std::string text;
  append_text(action, text);
  return text;
}

Action parse_action(std::string_view text) {
  text = trim(text);
  if (text.empty()) return {};
  return text.front() == '(' ? parse_pair(text) : parse_single(text);
}

}  // namespace sluice
