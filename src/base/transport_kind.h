#pragma once

namespace sluice {

// kAuto means kThreads within one process. Otherwise it means NCCL if every rank has its own
// process and GPU, else Gloo.
enum class TransportKind { kAuto, kThreads, kGloo, kNccl };

}  // namespace sluice
