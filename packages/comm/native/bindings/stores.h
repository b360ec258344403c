// A table of store clients keyed by JavaScript handle.
#pragma once

#include <memory>

#include "bindings/convert.h"
#include "store/store_client.h"

namespace mtl::comm::bindings {

// Returns null, with a pending exception, if the client is closed.
std::shared_ptr<store::StoreClient> find_store_client(const Napi::Env& env, int64_t handle);

}  // namespace mtl::comm::bindings
