// Adapts the job's store to LibTorch's process groups. Each waiting thread needs its own clone.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>

#include "job/store_client.h"

namespace sluice {

c10::intrusive_ptr<c10d::Store> make_job_store(std::shared_ptr<StoreClient> client,
                                               std::chrono::milliseconds timeout);

}  // namespace sluice
