#include "optim/slice_blocks.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "optim/gradient_norm.h"
#include "plan/slices.h"

namespace sluice {
namespace {

using detail::Cut;

// A tensor-parallel parameter on this rank, as `outer` rows of `row` elements. Each row has a range
// of every section (fused part) and slice.
struct Rows {
  std::int64_t outer = 1, row = 0;
  std::int64_t rows_of_block = 1;
  std::vector<std::vector<Cut>> pieces;  // [section][slice]: element ranges in a row

  explicit Rows(const ParameterInfo& parameter) {
    const std::vector<std::int64_t>& shape = parameter.global_shape;
    const auto dim = static_cast<std::size_t>(parameter.split->dim);
    std::int64_t inner = 1, whole = shape[dim];
    for (std::size_t d = 0; d < shape.size(); ++d)
      (d < dim ? outer : inner) *= d == dim ? 1 : shape[d];
    whole *= inner;
    const auto cuts = [&](const SliceRange& slices) {
      return detail::cuts_of(shape, *parameter.split, slices, parameter.name);
    };
    const SliceRange& held = parameter.slices;
    pieces.resize(cuts(held).size());
    for (int slice = held.begin; slice < held.end; ++slice) {
      const std::vector<Cut> of_slice = cuts({slice, slice + 1, held.count});
      for (std::size_t section = 0; section < of_slice.size(); ++section)
        pieces[section].push_back({0, of_slice[section].size() * inner});
    }
    for (std::vector<Cut>& of_section : pieces) {
      for (Cut& piece : of_section) {
        piece = {row, row + piece.size()};
        row = piece.end;
      }
    }
    const std::int64_t of_slice = (whole + held.count - 1) / held.count;
    rows_of_block = std::max<std::int64_t>(1, kGradientBlock / std::max<std::int64_t>(1, of_slice));
  }
};

void append(std::vector<double>& to, const std::vector<double>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

}  // namespace

std::vector<std::int64_t> block_ends(const ParameterInfo& parameter) {
  const Rows rows(parameter);
  std::vector<std::int64_t> ends;
  if (rows.outer == 1) {
    for (const std::vector<Cut>& of_section : rows.pieces) {
      for (const Cut& piece : of_section) {
        for (std::int64_t end = piece.begin; end < piece.end;) {
          end = std::min(end + kGradientBlock, piece.end);
          ends.push_back(end);
        }
      }
    }
  } else if (rows.row > 0) {
    for (std::int64_t end = 0; end < rows.outer;) {
      end = std::min(end + rows.rows_of_block, rows.outer);
      ends.push_back(end * rows.row);
    }
  }
  if (ends.empty()) ends.push_back(0);
  return ends;
}

SliceSquares slice_squares(const ParameterInfo& parameter, const at::Tensor& flat,
                           std::int64_t begin, const SquaresOf& squares_of) {
  const Rows rows(parameter);
  SliceSquares squares(static_cast<std::size_t>(parameter.slices.size()));
  const std::int64_t end = begin + flat.numel();
  if (rows.row == 0) return squares;
  if (rows.outer == 1) {
    for (const std::vector<Cut>& of_section : rows.pieces) {
      for (std::size_t slice = 0; slice < of_section.size(); ++slice) {
        const std::int64_t from = std::max(begin, of_section[slice].begin);
        const std::int64_t to = std::min(end, of_section[slice].end);
        if (from < to) append(squares[slice], squares_of(flat.narrow(0, from - begin, to - from)));
      }
    }
    return squares;
  }
  const at::Tensor matrix = flat.view({-1, rows.row});
  for (std::int64_t first = 0; first < matrix.size(0); first += rows.rows_of_block) {
    const at::Tensor block =
        matrix.narrow(0, first, std::min(rows.rows_of_block, matrix.size(0) - first));
    for (std::size_t slice = 0; slice < squares.size(); ++slice) {
      std::vector<at::Tensor> of_slice;
      for (const std::vector<Cut>& of_section : rows.pieces)
        of_slice.push_back(block.narrow(1, of_section[slice].begin, of_section[slice].size()));
      const at::Tensor elements = of_slice.size() == 1 ? of_slice.front() : at::cat(of_slice, 1);
      append(squares[slice], squares_of(elements.contiguous().view(-1)));
    }
  }
  return squares;
}

}  // namespace sluice
