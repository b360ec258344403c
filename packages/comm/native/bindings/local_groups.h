// Creates the shared memory of a group on this host, and of the members on this host of a group across hosts.
#pragma once

#include "bindings/jobs.h"
#include "engines/local/local_communicator.h"

namespace mtl::comm::bindings {

// Creates or opens the memory. `identity`: name, ranks (all on this host) and timeout; the position of this
// process is added to it. All ranks call this, in the same order for groups of the same name and ranks.
// `buffer_bytes`: 0 chooses a size for the host.
Status connect_local(Job* job, GroupIdentity* identity, uint64_t buffer_bytes,
                     std::unique_ptr<local::LocalCommunicator>* communicator);

}  // namespace mtl::comm::bindings
