// The memory of a group on this host: for groups entirely on this host, and for the members of a group on
// this host.
#pragma once

#include "bindings/jobs.h"
#include "engines/local/local_communicator.h"

namespace mtl::comm::bindings {

// `identity`: name, ranks (all on this host) and timeout; receives the position of this process. All ranks
// call it, in the same order for one name and ranks. `buffer_bytes`: 0 chooses a size for the host.
Status connect_local(Job* job, GroupIdentity* identity, uint64_t buffer_bytes,
                     std::unique_ptr<local::LocalCommunicator>* communicator);

}  // namespace mtl::comm::bindings
