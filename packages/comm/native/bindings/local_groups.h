// The memory of a group on this host, for groups over it and for those that have a part of their members
// here.
#pragma once

#include "bindings/jobs.h"
#include "engines/local/local_communicator.h"

namespace mtl::comm::bindings {

// `identity`: name, ranks (all on this host) and time-out; gets the position of this process. All ranks call
// it, in the same order for one name and ranks. `buffer_bytes`: 0 for what suits the host.
Status connect_local(Job* job, GroupIdentity* identity, uint64_t buffer_bytes,
                     std::unique_ptr<local::LocalCommunicator>* communicator);

}  // namespace mtl::comm::bindings
