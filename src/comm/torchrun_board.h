// The store that torchrun's agent keeps for its processes, as a place to leave a line: whoever
// reaches its port can read and write it, so torchrun is for networks that are trusted
// (docs/launching.md).
#pragma once

#include <chrono>
#include <memory>

#include "launch/launch_environment.h"
#include "launch/rendezvous.h"

namespace sluice {

// Throws Error(kPeer) when the agent does not answer within `timeout`.
std::unique_ptr<NoticeBoard> make_torchrun_board(const LaunchEnvironment& environment,
                                                 std::chrono::milliseconds timeout);

}  // namespace sluice
