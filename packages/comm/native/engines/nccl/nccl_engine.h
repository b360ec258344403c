// The interface of the GPU engine to the rest of @mtl/comm. It is compiled in every build; in a build without
// NCCL's header, its functions only report that the engine is missing.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engines/nccl/process_groups.h"
#include "group/communicator.h"

namespace mtl::comm::nccl {

// Functions that access the job's store. Several threads call them. As soon as the group and its pairs are
// connected, operations that succeed do not call them.
struct StoreAccess {
  std::function<Status(const std::string& key, const std::string& value)> set;
  // Looks up a key without waiting. Sets `*is_there` to true if the key has been set.
  std::function<Status(const std::string& key, std::string* value, bool* is_there)> find;
};

struct NcclOptions {
  std::string key;                 // identifies this group in the store: the same on all members, unique within a job
  int device = 0;                  // the CUDA device number in this process
  void* compute_stream = nullptr;  // cudaStream_t or CUstream of inputs and results; null: the default stream
  StoreAccess store;
  std::function<void(int32_t change)> keep_memory;  // MtlDeviceApi::keep_memory; may be empty
  std::shared_ptr<ProcessGroups> process;  // shared by all groups of the process in this job
  // How long, in nanoseconds, to wait for the host's watchdog or the heartbeats of other hosts to report
  // which peer has ended. NCCL itself reports only that some peer has ended.
  int64_t naming_ns = 1000 * kMillisecond;
};

// The libraries libnccl and libcuda after they have been found and checked. They stay open until the process
// ends.
struct NcclLibraries;

// Opens the libraries. Returns MTL_NCCL_NOT_BUILT if the build had no NCCL header, MTL_NCCL_NOT_FOUND with
// every path that was tried if a library is missing, or MTL_NCCL_VERSION if the library is too old. The
// caller should keep the result, because every call searches again.
Status open_nccl_libraries(std::shared_ptr<const NcclLibraries>* libraries);

// Information about the libraries, for `mtl doctor`.
struct NcclInformation {
  std::string version;  // of the library: "2.30.7"
  std::string path, driver_path;
  std::string built_against;
};
NcclInformation information_of(const NcclLibraries& libraries);
// Returns a string such as "NCCL 2.30.7 at PATH (compiled against 2.30.7), driver at PATH".
std::string describe(const NcclLibraries& libraries);

// Returns a string such as "compiled against NCCL 2.30.7", or the reason why the engine was not compiled.
std::string nccl_build_text();

// Creates a member of `group`. The function returns before the other members are connected, because the group
// connects on its own thread. The first operation reports a failure to connect. `job` must outlive the
// communicator. Returns MTL_CUDA if the device does not exist.
Status connect_nccl(std::shared_ptr<const NcclLibraries> libraries, const GroupIdentity& group,
                    const NcclOptions& options, JobState* job, std::unique_ptr<Communicator>* communicator);

}  // namespace mtl::comm::nccl
