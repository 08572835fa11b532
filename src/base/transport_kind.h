#pragma once

namespace sluice {

// kAuto: kThreads within one process, NCCL if every rank has its own process and GPU, otherwise
// Gloo.
enum class TransportKind { kAuto, kThreads, kGloo, kNccl };

}  // namespace sluice
