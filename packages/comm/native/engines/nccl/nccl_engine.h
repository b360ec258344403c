// The engine for GPUs: its interface to the rest of @mtl/comm. Compiled in every build; in a build without
// NCCL's header, the engine only reports that the header was missing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engines/nccl/process_groups.h"
#include "group/communicator.h"

namespace mtl::comm::nccl {

// Functions that access the job's store. Called from several threads, but never for an operation that
// succeeds, once its group and its pairs are connected.
struct StoreAccess {
  std::function<Status(const std::string& key, const std::string& value)> set;
  // Looks for a key without waiting for it. `*is_there`: whether the key has been set.
  std::function<Status(const std::string& key, std::string* value, bool* is_there)> find;
};

struct NcclOptions {
  std::string key;                 // of this group in the store: the same on all members, unique within a job
  int device = 0;                  // CUDA ordinal in this process
  void* compute_stream = nullptr;  // cudaStream_t or CUstream of inputs and results; null: the default
  StoreAccess store;
  std::function<void(int32_t change)> keep_memory;  // MtlDeviceApi::keep_memory; may be empty
  std::shared_ptr<ProcessGroups> process;  // one per process and job
  // How long the host's watchdog and the heartbeats of other hosts have to report which peer has ended: NCCL
  // reports only that one has.
  int64_t naming_ns = 1000 * kMillisecond;
};

// The libraries libnccl and libcuda, found and checked. They stay open until the process ends.
struct NcclLibraries;

// Opens the libraries. MTL_NCCL_NOT_BUILT if the build lacked NCCL's header, MTL_NCCL_NOT_FOUND with every
// path that was tried, MTL_NCCL_VERSION for a library that is too old. Keep the result: every call searches
// again.
Status open_nccl_libraries(std::shared_ptr<const NcclLibraries>* libraries);

// Information about the libraries, for `mtl doctor`.
struct NcclInformation {
  std::string version;  // of the library: "2.30.7"
  std::string path, driver_path;
  std::string built_against;
};
NcclInformation information_of(const NcclLibraries& libraries);
// Returns "NCCL 2.30.7 at PATH (compiled against 2.30.7), driver at PATH".
std::string describe(const NcclLibraries& libraries);

// Describes the build: "compiled against NCCL 2.30.7", or why the engine was not compiled.
std::string nccl_build_text();

// Creates a member of `group`. Returns before the other members have connected: the group connects on its own
// thread, and the first operation reports a failure to connect. `job` outlives the communicator. MTL_CUDA if
// the device does not exist.
Status connect_nccl(std::shared_ptr<const NcclLibraries> libraries, const GroupIdentity& group,
                    const NcclOptions& options, JobState* job, std::unique_ptr<Communicator>* communicator);

}  // namespace mtl::comm::nccl
