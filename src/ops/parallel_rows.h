#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/kernels/kernels.h"

namespace sluice::ops {

inline constexpr std::int64_t kRowBlock = 64;

// Calls run(begin, end) for ranges of rows, on the intra-op threads.
template <typename Run>
void for_rows(std::int64_t rows, const Run& run) {
  if (at::get_num_threads() == 1 || rows <= kRowBlock) return run(0, rows);
  at::parallel_for(0, rows, kRowBlock, run);
}

// Sums over rows: run(begin, end, sums) adds rows in order to sums [width], initially 0. Sums by
// blocks, so bits do not depend on the number of threads.
template <typename Run>
void for_rows_with_sums(std::int64_t rows, std::int64_t width, float* sums, const Run& run) {
  std::fill_n(sums, width, 0.0F);
  if (rows <= kRowBlock) return run(0, rows, sums);
  const std::int64_t blocks = (rows + kRowBlock - 1) / kRowBlock;
  std::vector<float> of_blocks(static_cast<std::size_t>(blocks * width));
  at::parallel_for(0, blocks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t block = first; block < last; ++block) {
      run(block * kRowBlock, std::min(rows, (block + 1) * kRowBlock),
          of_blocks.data() + block * width);
    }
  });
  kernels().add_rows(blocks, width, of_blocks.data(), width, sums);
}

}  // namespace sluice::ops
