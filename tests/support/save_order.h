// Checks that a program saves checkpoints in an order of calls that is safe against power loss.
//
// A checkpoint is a folder step-XXXXXXXX. It is committed once it has that name. If markers are
// used, it is committed once it has its manifest.json.
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
  // parent of the checkpoints, relative to the recorded folder
  std::string folder = "checkpoint";
  bool marker = false;
};

struct OrderReport {
  std::vector<std::string> commits;  // paths, in order
  std::vector<std::string> broken;   // one line per violation
};

// The rules:
// 1. Everything that a call commits was synced before: files after their last write, folders after
//    their last change.
// 2. While a power loss may leave a checkpoint committed, none of its files is removed. It loses
// its
//    name (its marker) only once a later checkpoint is durable.
// 3. At the end every committed checkpoint is durable.
OrderReport check_save_order(const Tree& before, const std::vector<FileCall>& calls,
                             const Saving& saving);

// All checkpoints that the recorded program made or found: each path with every content that it
// committed.
using Known = std::map<std::string, std::vector<Tree>>;
Known committed_contents(const Tree& before, const std::vector<FileCall>& calls,
                         const Saving& saving,
                         std::shared_ptr<Contents> contents = std::make_shared<Contents>());

// The complete committed checkpoints of a state. `torn` names a committed checkpoint that is
// incomplete.
struct Judgement {
  std::vector<std::string> whole;
  std::string torn;
};
Judgement judge(const Tree& state, const Known& known, const Saving& saving);

struct LossReport {
  long num_states = 0;
  std::vector<std::string> broken;
};

// Visits the states that a power loss may leave after each call. In each of them all committed
// checkpoints must be complete, and none may be older than the durable one. also(state) checks a
// correct state further and returns an error text or "".
LossReport check_power_losses(const Tree& before, const std::vector<FileCall>& calls,
                              const Saving& saving, int num_random, std::uint64_t seed,
                              const std::function<std::string(const Tree&)>& also = {});

}  // namespace sluice::test
