// The values of `parallelism.transport`.
#pragma once

namespace sluice {

// kAuto means kThreads within one process. Between processes it means NCCL if every rank has its
// own process and GPU, otherwise Gloo.
enum class TransportKind { kAuto, kThreads, kGloo, kNccl };

}  // namespace sluice
