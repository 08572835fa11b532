// Adapts the job's store to c10d::Store, for LibTorch's process groups. Calls of one store run one
// after another, so a thread that waits needs its own clone.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>

#include "launch/store_client.h"

namespace sluice {

// `timeout` is for waits without one of their own.
c10::intrusive_ptr<c10d::Store> make_job_store(std::shared_ptr<StoreClient> client,
                                               std::chrono::milliseconds timeout);

}  // namespace sluice
