// The job's store as LibTorch's process groups want it.
//
// Owns: nothing but the adaptation; clones have a client of their own.
// Thread-safety: as StoreClient: a waiting call of another thread needs a clone.
#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <memory>

#include "launch/store_client.h"

namespace sluice {

// timeout: of every wait that is given none.
c10::intrusive_ptr<c10d::Store> make_job_store(std::shared_ptr<StoreClient> client,
                                               std::chrono::milliseconds timeout);

}  // namespace sluice
