// Clients of stores, by the numbers that JavaScript holds.
#pragma once

#include <memory>

#include "bindings/convert.h"
#include "store/store_client.h"

namespace mtl::comm::bindings {

// Null with a pending exception for a client that is closed.
std::shared_ptr<store::StoreClient> find_store_client(const Napi::Env& env, int64_t handle);

}  // namespace mtl::comm::bindings
