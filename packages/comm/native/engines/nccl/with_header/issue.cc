#include "engines/nccl/with_header/channel.h"

namespace mtl::comm::nccl {
namespace {

ncclDataType_t type_of(DType dtype) {
  constexpr ncclDataType_t types[kNumDTypes] = {ncclFloat32, ncclBfloat16, ncclFloat16, ncclFloat64,
                                                ncclInt32,   ncclInt64,    ncclUint8};
  return types[static_cast<int>(dtype)];
}

ncclRedOp_t reduction_of(Reduction reduction) {
  constexpr ncclRedOp_t reductions[] = {ncclSum, ncclMax, ncclMin};
  return reductions[static_cast<int>(reduction)];
}

// Passes one send and one receive for each member to NCCL. All these calls are in one NCCL group, so that
// NCCL may execute them in any order.
ncclResult_t all_to_all(const NcclLibraries& libraries, const Channel& channel, const Operation& operation) {
  const int size = static_cast<int>(channel.members.size());
  const size_t element = size_of(operation.description.dtype);
  const ncclDataType_t type = type_of(operation.description.dtype);
  ncclResult_t first_error = libraries.ncclGroupStart();
  if (first_error != ncclSuccess) return first_error;
  const auto note = [&](ncclResult_t result) {
    const bool is_error = result != ncclSuccess && result != ncclInProgress;
    if (is_error && first_error == ncclSuccess) first_error = result;
  };
  for (int member = 0; member < size; ++member) {
    const ElementRange to = operation.part_to(member, size), from = operation.part_from(member, size);
    if (to.length > 0) {
      note(libraries.ncclSend(static_cast<const char*>(operation.input) + to.start * element, to.length, type, member,
                              channel.communicator, channel.stream));
    }
    if (from.length > 0) {
      note(libraries.ncclRecv(static_cast<char*>(operation.output) + from.start * element, from.length, type, member,
                              channel.communicator, channel.stream));
    }
  }
  // the NCCL group must be ended even after an error, because an open group is state of this thread
  const ncclResult_t ended = libraries.ncclGroupEnd();
  return first_error != ncclSuccess ? first_error : ended;
}

}  // namespace

ncclResult_t issue(const NcclLibraries& libraries, const Channel& channel, const Operation& operation,
                   CUdeviceptr barrier_word) {
  const Description& description = operation.description;
  const ncclDataType_t type = type_of(description.dtype);
  const ncclRedOp_t reduction = reduction_of(description.reduction);
  const size_t element = size_of(description.dtype);
  const size_t inputs = operation.input_bytes / element;
  const size_t outputs = operation.output_bytes / element;
  ncclComm_t communicator = channel.communicator;
  CUstream stream = channel.stream;
  switch (operation.kind) {
    case OperationKind::kAllReduce:
      return libraries.ncclAllReduce(operation.input, operation.output, inputs, type, reduction, communicator, stream);
    case OperationKind::kAllGather:
      return libraries.ncclAllGather(operation.input, operation.output, inputs, type, communicator, stream);
    case OperationKind::kReduceScatter:
      return libraries.ncclReduceScatter(operation.input, operation.output, outputs, type, reduction, communicator,
                                         stream);
    case OperationKind::kBroadcast:
      return libraries.ncclBroadcast(operation.input, operation.output, inputs, type, description.root, communicator,
                                     stream);
    case OperationKind::kAllToAll:
      return all_to_all(libraries, channel, operation);
    case OperationKind::kSend:
      return libraries.ncclSend(operation.input, inputs, type, 1, communicator, stream);
    case OperationKind::kReceive:
      return libraries.ncclRecv(operation.output, outputs, type, 0, communicator, stream);
    case OperationKind::kBarrier: {
      void* word = reinterpret_cast<void*>(barrier_word);
      return libraries.ncclAllReduce(word, word, 1, ncclInt32, ncclMax, communicator, stream);
    }
  }
  return ncclInvalidArgument;
}

uint64_t bytes_on_wire(const Operation& operation, int num_members, int rank) {
  const uint64_t size = static_cast<uint64_t>(num_members);
  const uint64_t others = size - 1;
  switch (operation.kind) {
    case OperationKind::kAllReduce:
      return 2 * operation.input_bytes * others / size;
    case OperationKind::kAllGather:
      return operation.input_bytes * others;
    case OperationKind::kReduceScatter:
      return operation.input_bytes * others / size;
    case OperationKind::kAllToAll:
      return operation.input_bytes - operation.part_to(rank, num_members).length * size_of(operation.description.dtype);
    case OperationKind::kBroadcast:
      // data is sent along the ring from the root, so the last member sends nothing
      return (rank + 1) % num_members == operation.description.root ? 0 : operation.input_bytes;
    case OperationKind::kSend:
      return operation.input_bytes;
    case OperationKind::kReceive:
    case OperationKind::kBarrier:
      return 0;
  }
  return 0;
}

}  // namespace mtl::comm::nccl
