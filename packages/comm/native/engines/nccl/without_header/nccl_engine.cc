#include "engines/nccl/nccl_engine.h"

namespace mtl::comm::nccl {

struct NcclLibraries {};

namespace {

Status not_built() { return error_status("MTL_NCCL_NOT_BUILT", "%s", nccl_build_text().c_str()); }

}  // namespace

Status open_nccl_libraries(std::shared_ptr<const NcclLibraries>*) { return not_built(); }

NcclInformation information_of(const NcclLibraries&) { return {}; }

std::string describe(const NcclLibraries&) { return nccl_build_text(); }

std::string nccl_build_text() {
  return "this build has no NCCL engine, because nccl.h or the headers of CUDA were not found when it was compiled; "
         "remedy: set CUDA_HOME, or pip install nvidia-nccl-cu13, and build again";
}

Status connect_nccl(std::shared_ptr<const NcclLibraries>, const GroupIdentity&, const NcclOptions&, JobState*,
                    std::unique_ptr<Communicator>*) {
  return not_built();
}

}  // namespace mtl::comm::nccl
