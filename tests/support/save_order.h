// The test that the calls of a program that saves checkpoints come in an order that a power loss
// cannot turn against it.
//
// A checkpoint is a folder step-XXXXXXXX. It is committed where it has that name; with a marker,
// where it has its manifest.json.
//
// Owns: the rules, and the judgement of states. Does not own: the file system
// (file_system_model.h). Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/file_system_model.h"

namespace sluice::test {

struct Saving {
  std::string folder = "checkpoint";  // that has the step-XXXXXXXX, below the recorded one
  bool marker = false;
};

struct OrderReport {
  std::vector<std::string> commits;  // paths, as they came
  std::vector<std::string> broken;   // one line each
};

// The rules:
//  1. What a call commits was synced before: bytes after their last write, folders after their last
//     change.
//  2. What is committed after a power loss is never taken apart, and loses its name (its marker)
//     only when a later one is durable.
//  3. At the end everything that was committed is durable.
OrderReport check_save_order(const Tree& before, const std::vector<FileCall>& calls,
                             const Saving& saving);

// The checkpoints that a recorded program made or found: by path, the contents it ever committed.
using Known = std::map<std::string, std::vector<Tree>>;
Known committed_contents(const Tree& before, const std::vector<FileCall>& calls,
                         const Saving& saving,
                         std::shared_ptr<Contents> contents = std::make_shared<Contents>());

// The committed checkpoints of a state, all whole; `torn` names what is committed and not whole.
struct Judgement {
  std::vector<std::string> whole;
  std::string torn;
};
Judgement judge(const Tree& state, const Known& known, const Saving& saving);

struct LossReport {
  long num_states = 0;
  std::vector<std::string> broken;
};

// After each call, the states that a power loss may leave there: all that is committed is whole,
// and none is older than what is durable. also(state): what else to do with a state that is right;
// says what is wrong, or "".
LossReport check_power_losses(const Tree& before, const std::vector<FileCall>& calls,
                              const Saving& saving, int num_random, std::uint64_t seed,
                              const std::function<std::string(const Tree&)>& also = {});

}  // namespace sluice::test
