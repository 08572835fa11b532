#include "graph/call_checks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <utility>

namespace sluice::detail {
namespace {

// Reads arguments without moving them out of the frame.
class Arguments {
 public:
  Arguments(const GraphCall& call, GraphFrame& frame) : call_(call), frame_(frame) {}

  c10::IValue at(std::size_t i) const { return value(call_.arguments.at(i)); }
  at::Tensor tensor(std::size_t i) const { return at(i).toTensor(); }
  std::vector<at::Tensor> tensors(std::size_t i) const {
    std::vector<at::Tensor> list;
    for (const BoundArgument& element : call_.arguments.at(i).elements)
      list.push_back(value(element).toTensor());
    return list;
  }
  bool flag(std::string_view name) const {
    const auto number = call_.op->schema().argumentIndexWithName(name);
    return number && at(static_cast<std::size_t>(*number)).toBool();
  }

 private:
  c10::IValue value(BoundArgument argument) const {
    argument.is_last_use = false;
    return argument.take(frame_);
  }

  const GraphCall& call_;
  GraphFrame& frame_;
};

void check_attention(const GraphCall& call, GraphFrame& frame) {
  const Arguments arguments(call, frame);
  const at::Tensor key = arguments.tensor(1), value = arguments.tensor(2);
  if (key.dim() < 2 || value.dim() < 2) return;
  TORCH_CHECK(key.size(-2) == value.size(-2), "there are ", key.size(-2), " keys, but ",
              value.size(-2), " values");
  if (key.dim() < 3 || value.dim() < 3 || !arguments.flag("enable_gqa")) return;
  TORCH_CHECK(key.size(-3) > 0 && key.size(-3) == value.size(-3), "keys have ", key.size(-3),
              " heads, but values have ", value.size(-3));
}

void check_weight_norm(const GraphCall& call, GraphFrame& frame) {
  const Arguments arguments(call, frame);
  const at::Tensor v = arguments.tensor(0), g = arguments.tensor(1);
  const std::int64_t dim = arguments.at(2).toInt();
  TORCH_CHECK(dim >= -1 && dim < v.dim(), "there is no dimension ", dim);
  TORCH_CHECK(v.numel() > 0, "the tensor of directions is empty");
  const std::int64_t expected = dim == -1 ? 1 : v.size(dim);
  TORCH_CHECK(g.numel() == expected, "there are ", g.numel(), " lengths for ", expected,
              " directions");
}

struct Recurrent {
  at::Tensor input;
  at::Tensor hidden,
      cell;  // states before the first token; only an LSTM's `cell` differs from `hidden`
  std::vector<at::Tensor> weights;
  std::int64_t num_gates = 1;
};

// LibTorch's CPU kernels do not check the sizes of weights.
void check_recurrent(const Recurrent& of, bool has_biases, std::int64_t num_layers,
                     bool is_bidirectional, bool batch_first) {
  TORCH_CHECK(of.input.dim() == 3, "the input has ", of.input.dim(), " dimensions");
  TORCH_CHECK(num_layers > 0, "there are ", num_layers, " layers");
  const std::int64_t directions = is_bidirectional ? 2 : 1;
  for (const at::Tensor& state : {of.hidden, of.cell}) {
    TORCH_CHECK(state.dim() == 3 && state.size(0) / directions == num_layers &&
                    state.size(0) % directions == 0 &&
                    state.size(1) == of.input.size(batch_first ? 0 : 1),
                "a state has the sizes ", state.sizes());
  }
  const std::int64_t width = of.cell.size(2), output = of.hidden.size(2);
  TORCH_CHECK(width > 0 && width < (std::int64_t{1} << 31), "a state has the sizes ",
              of.cell.sizes());
  const bool is_projected = width != output;
  const std::size_t per_direction = (has_biases ? 4 : 2) + (is_projected ? 1 : 0);
  const auto expected = [&](std::size_t number) -> std::vector<std::int64_t> {
    const bool is_first = number / per_direction < static_cast<std::size_t>(directions);
    const std::size_t kind = number % per_direction;
    if (kind == 0) return {of.num_gates * width, is_first ? of.input.size(2) : directions * output};
    if (kind == 1) return {of.num_gates * width, output};
    if (has_biases && kind < 4) return {of.num_gates * width};
    return {output, width};
  };
  TORCH_CHECK(of.weights.size() % (per_direction * static_cast<std::size_t>(directions)) == 0 &&
                  of.weights.size() / (per_direction * static_cast<std::size_t>(directions)) ==
                      static_cast<std::size_t>(num_layers),
              "there are ", of.weights.size(), " weights for ", num_layers, " layers");
  for (std::size_t i = 0; i < of.weights.size(); ++i)
    TORCH_CHECK(of.weights[i].sizes() == at::IntArrayRef(expected(i)), "weight ", i,
                " has the sizes ", of.weights[i].sizes(), ", not ", at::IntArrayRef(expected(i)));
}

template <std::int64_t num_gates>
void check_recurrent_call(const GraphCall& call, GraphFrame& frame) {
  const Arguments arguments(call, frame);
  Recurrent of{.input = arguments.tensor(0),
               .hidden = {},
               .cell = {},
               .weights = arguments.tensors(2),
               .num_gates = num_gates};
  if constexpr (num_gates == 4) {
    const std::vector<at::Tensor> states = arguments.tensors(1);
    TORCH_CHECK(states.size() == 2, "there are ", states.size(), " states");
    of.hidden = states[0];
    of.cell = states[1];
  } else {
    of.hidden = of.cell = arguments.tensor(1);
  }
  check_recurrent(of, arguments.at(3).toBool(), arguments.at(4).toInt(),
                  arguments.flag("bidirectional"), arguments.flag("batch_first"));
}

at::Tensor as_lengths(const c10::IValue& lengths) {
  return lengths.isTensor() ? lengths.toTensor().cpu().to(at::kLong)
                            : at::tensor(lengths.toIntVector(), at::kLong);
}

// Labels beyond each row's length are not read, and may have any value.
void check_ctc(const GraphCall& call, GraphFrame& frame) {
  const Arguments arguments(call, frame);
  const at::Tensor scores = arguments.tensor(0);
  at::Tensor labels = arguments.tensor(1).cpu();
  if (scores.dim() < 2) return;
  const std::int64_t classes = scores.size(-1);
  if (labels.dim() == 2) {
    const at::Tensor lengths = as_lengths(arguments.at(3));
    TORCH_CHECK(lengths.dim() == 1 && lengths.size(0) == labels.size(0), "there are ",
                lengths.numel(), " lengths for ", labels.size(0), " rows of labels");
    const at::Tensor is_read = at::arange(labels.size(1)).unsqueeze(0).lt(lengths.unsqueeze(1));
    labels = labels.masked_select(is_read);
  }
  if (labels.numel() == 0) return;
  const auto least = labels.min().item<std::int64_t>(), most = labels.max().item<std::int64_t>();
  TORCH_CHECK(least >= 0 && most < classes, "a label is ", least < 0 ? least : most,
              ", but there are ", classes, " classes");
}

// A view may reach only the tensor's own elements; LibTorch allows any of the storage. The tensor
// must have its strides from export, because the view's strides were recorded for them.
void check_strided(const GraphCall& call, GraphFrame& frame) {
  const Arguments arguments(call, frame);
  const at::Tensor self = arguments.tensor(0);
  const std::vector<std::int64_t> sizes = arguments.at(1).toIntVector();
  const std::vector<std::int64_t> strides = arguments.at(2).toIntVector();
  TORCH_CHECK(arguments.at(3).isNone(), "there is a storage offset");
  TORCH_CHECK(self.layout() == at::kStrided && self.is_non_overlapping_and_dense(),
              "the elements of the tensor are not one piece of memory");
  const std::vector<std::int64_t> exported = call.exported_strides->take(frame).toIntVector();
  for (std::size_t i = 0; i < static_cast<std::size_t>(self.dim()); ++i) {
    const auto dim = static_cast<std::int64_t>(i);
    TORCH_CHECK(self.numel() == 0 || self.size(dim) == 1 ||
                    (i < exported.size() && self.stride(dim) == exported[i]),
                "the tensor has the strides ", self.strides(), ", but at export it had ",
                at::IntArrayRef(exported));
  }
  TORCH_CHECK(sizes.size() == strides.size(), "there are ", sizes.size(), " sizes and ",
              strides.size(), " strides");
  std::int64_t last = 0, count = 1;  // last: offset of the farthest element
  bool fits = true, is_empty = false;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    std::int64_t reach = 0;
    is_empty = is_empty || sizes[i] == 0;
    fits = fits && sizes[i] >= 0 && strides[i] >= 0 &&
           !__builtin_mul_overflow(std::max<std::int64_t>(0, sizes[i] - 1), strides[i], &reach) &&
           !__builtin_add_overflow(last, reach, &last) &&
           !__builtin_mul_overflow(count, std::max<std::int64_t>(1, sizes[i]), &count);
  }
  TORCH_CHECK(fits && (is_empty || last < self.numel()), "a view of the sizes ",
              at::IntArrayRef(sizes), " with the strides ", at::IntArrayRef(strides),
              " reaches beyond the ", self.numel(), " elements of its tensor");
}

constexpr std::array<std::pair<std::string_view, GraphCall::Check>, 9> kChecks{{
    {"aten::as_strided", check_strided},
    {"aten::scaled_dot_product_attention", check_attention},
    {"aten::_scaled_dot_product_attention_math", check_attention},
    {"aten::_weight_norm", check_weight_norm},
    {"aten::lstm", check_recurrent_call<4>},
    {"aten::gru", check_recurrent_call<3>},
    {"aten::rnn_tanh", check_recurrent_call<1>},
    {"aten::rnn_relu", check_recurrent_call<1>},
    {"aten::ctc_loss", check_ctc},
}};

}  // namespace

GraphCall::Check find_call_check(std::string_view name) {
  for (const auto& [known, check] : kChecks)
    if (known == name) return check;
  return nullptr;
}

}  // namespace sluice::detail
