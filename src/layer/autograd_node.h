#pragma once

#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>

#include <memory>
#include <type_traits>
#include <utility>

namespace sluice {

// std::shared_ptr in torch 2.11, c10::intrusive_ptr in torch 2.13.
using NodePtr = decltype(torch::autograd::Edge::function);

template <typename Type, typename Pointer = NodePtr, typename... Args>
Pointer make_node(Args&&... args) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return Pointer(new Type(std::forward<Args>(args)...));
  } else {
    return c10::make_intrusive<Type>(std::forward<Args>(args)...);
  }
}

}  // namespace sluice
