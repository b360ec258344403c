// Descriptions of positions, for messages.
#pragma once

#include <cstring>
#include <string>

#include "emulation/block.h"

namespace mtl::emulation {

inline std::string describe(Index index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

inline std::string describe(Site site) {
  const char* slash = std::strrchr(site.file, '/');
  return std::string(site.what) + " (" + (slash == nullptr ? site.file : slash + 1) + ":" + std::to_string(site.line) + ")";
}

}  // namespace mtl::emulation
