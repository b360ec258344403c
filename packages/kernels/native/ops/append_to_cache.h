#pragma once

namespace mtl {

struct AppendToCache {
  enum Tensors { kKeyCache, kValueCache, kKey, kValue };
  enum Attributes { kPosition };
};

}  // namespace mtl
