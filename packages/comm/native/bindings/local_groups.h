// Creates the shared memory for a group on this host, or for the members on this host of a group across
// hosts.
#pragma once

#include "bindings/jobs.h"
#include "engines/local/local_communicator.h"

namespace mtl::comm::bindings {

// Creates or opens the memory. `identity` contains name, ranks (all on this host) and timeout; this function
// sets the position of this process in it. All ranks must call this function, in the same order for groups
// with the same name and ranks. If `buffer_bytes` is 0, a size is chosen.
Status connect_local(Job* job, GroupIdentity* identity, uint64_t buffer_bytes,
                     std::unique_ptr<local::LocalCommunicator>* communicator);

}  // namespace mtl::comm::bindings
