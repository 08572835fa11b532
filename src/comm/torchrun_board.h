// A NoticeBoard on the store of torchrun's agent. Needs a trusted network (docs/launching.md).
#pragma once

#include <chrono>
#include <memory>

#include "job/launch_environment.h"
#include "job/rendezvous.h"

namespace sluice {

// Throws Error(kPeer) if the agent does not answer within `timeout`.
std::unique_ptr<NoticeBoard> make_torchrun_board(const LaunchEnvironment& environment,
                                                 std::chrono::milliseconds timeout);

}  // namespace sluice
