#pragma once

#include <vector>

#include "sluice/parts/observers.h"

namespace sluice {

// Reports tensors that a rank receives from other ranks to a MemoryLedger.
class LedgerObserver final : public ExecutorObserver {
 public:
  LedgerObserver(MemoryLedger& ledger, int rank) : ledger_(ledger), rank_(rank) {}
  void arrived(const Action& /*action*/, const std::vector<at::Tensor>& tensors) override {
    for (const at::Tensor& tensor : tensors) {
      if (tensor.defined()) ledger_.transfer(tensor.storage().data(), rank_);
    }
  }

 private:
  MemoryLedger& ledger_;
  int rank_;
};

}  // namespace sluice
