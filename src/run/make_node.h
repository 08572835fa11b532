// A node of autograd's graph, in the pointer that this version of torch holds nodes by.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

#include "run/split_backward.h"

namespace sluice {

template <typename Type, typename Pointer = NodePtr, typename... Args>
Pointer make_node(Args&&... args) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    return Pointer(new Type(std::forward<Args>(args)...));
  } else {
    return c10::make_intrusive<Type>(std::forward<Args>(args)...);
  }
}

}  // namespace sluice
