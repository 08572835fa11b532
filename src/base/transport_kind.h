// The ways of tensors between ranks, as `parallelism.transport` names them. Pure data.
#pragma once

namespace sluice {

// kAuto: between processes NCCL where each is a rank with a GPU of its own, else Gloo; in one
// process as kThreads.
enum class TransportKind { kAuto, kThreads, kGloo, kNccl };

}  // namespace sluice
