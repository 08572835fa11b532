#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "sluice/layer.h"
#include "sluice/parts/tensor_parallel.h"
#include "sluice/parts/transport.h"

namespace sluice::test {

struct SliceLayout {
  int degree = 1, slices = 1;
  bool sequence = false;
};

inline std::string name_of(const SliceLayout& layout) {
  return std::to_string(layout.degree) + " ranks, " + std::to_string(layout.slices) + " slices, " +
         (layout.sequence ? "rows divided" : "rows whole");
}

// A rank's tensor: its part along dimension `dim`, or the same on all ranks if dim is -1.
struct Found {
  at::Tensor tensor;
  std::int64_t dim = -1;
};
using FoundByName = std::map<std::string, Found>;
using Whole = std::map<std::string, at::Tensor>;

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor left = a.contiguous(), right = b.contiguous();
  return left.scalar_type() == right.scalar_type() && left.sizes() == right.sizes() &&
         (left.nbytes() == 0 ||
          std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0);
}

// Runs the body on every rank and assembles the results. Replicated tensors must have the same bits
// on all ranks.
inline Whole on_slice_ranks(const SliceLayout& layout,
                            const std::function<FoundByName(const SliceGroup&)>& body,
                            std::int64_t sequence_dim = 1) {
  auto transports = make_local_transports(layout.degree, {});
  std::vector<FoundByName> found(transports.size());
  std::vector<std::string> errors(transports.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < transports.size(); ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      try {
        found[rank] = body(SliceGroup(
            transports[rank]->world(),
            {.degree = layout.degree, .slices = layout.slices, .sequence = layout.sequence},
            sequence_dim));
      } catch (const std::exception& error) {
        errors[rank] = error.what();
        transports[rank]->abort({static_cast<int>(rank), ErrorKind::kInternal, error.what()});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& error : errors) {
    EXPECT_EQ(error, "") << name_of(layout);
    if (!error.empty()) return {};
  }
  Whole whole;
  for (const auto& [name, first] : found.front()) {
    std::vector<at::Tensor> parts;
    for (const FoundByName& of_rank : found) parts.push_back(of_rank.at(name).tensor.detach());
    if (first.dim >= 0) {
      whole[name] = at::cat(parts, first.dim);
      continue;
    }
    for (const at::Tensor& part : parts)
      EXPECT_TRUE(same_bits(part, parts.front()))
          << name << " differs by rank, " << name_of(layout);
    whole[name] = parts.front();
  }
  return whole;
}

inline void expect_same_bits(const Whole& expected, const Whole& found, const std::string& what) {
  EXPECT_EQ(expected.size(), found.size()) << what;
  for (const auto& [name, tensor] : expected) {
    if (!found.contains(name)) {
      ADD_FAILURE() << name << " is missing, " << what;
      continue;
    }
    EXPECT_TRUE(same_bits(tensor, found.at(name))) << name << ", " << what;
  }
}

inline double distance(const Whole& expected, const Whole& found) {
  double most = 0;
  for (const auto& [name, tensor] : expected) {
    const at::Tensor right = tensor.to(at::kDouble);
    const double size = right.norm().item<double>();
    const double apart = (found.at(name).to(at::kDouble) - right).norm().item<double>();
    most = std::max(most, size > 0 ? apart / size : apart);
  }
  return most;
}

inline at::Tensor drawn(const std::string& name, at::IntArrayRef sizes, double std = 1.0) {
  at::Tensor values = at::empty(sizes);
  keyed_normal_(values, 11, name, 0.0, std);
  return values;
}

}  // namespace sluice::test
