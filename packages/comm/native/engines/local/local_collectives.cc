// The steps of collectives. In a step, a member writes data for the other members and reads their data.
#include <cstring>

#include "engines/local/local_communicator.h"

namespace mtl::comm::local {
namespace {

// All-reduces of at most this many bytes are not divided among members. They take one step instead of two,
// which saves more time than the additional bytes cost.
constexpr uint64_t kSmallBytes = 1024;

// From this size on, a step transfers a whole buffer. Gradients and parameters of this size are usually
// transferred on the lanes' threads while the programs compute. There, a step costs every member two changes
// of threads.
constexpr uint64_t kLargeBytes = 8 * 1024 * 1024;

const char* at(const void* base, uint64_t bytes) { return static_cast<const char*>(base) + bytes; }
char* at(void* base, uint64_t bytes) { return static_cast<char*>(base) + bytes; }

}  // namespace

LocalCommunicator::Plan LocalCommunicator::plan_of(const Operation& operation) const {
  const uint64_t members = static_cast<uint64_t>(size_);
  const uint64_t element = size_of(operation.description.dtype);
  const uint64_t num_inputs = operation.kind == OperationKind::kAllGather ? members : 1;
  const bool is_large =
      operation.parts == nullptr && num_inputs * operation.description.count * element >= kLargeBytes;
  const uint64_t step_bytes = is_large ? layout_.buffer_bytes : layout_.small_chunk_bytes;
  Plan plan;
  plan.count = operation.description.count;
  plan.chunk = step_bytes / element;
  if (operation.kind == OperationKind::kReduceScatter || operation.kind == OperationKind::kAllToAll) {
    plan.count /= members;  // each part is divided, and a step has one slice for each member
    plan.chunk = step_bytes / (element * members);
  }
  if (operation.parts != nullptr) {
    plan.is_known = false;
    return plan;
  }
  plan.num_chunks = plan.count == 0 ? 1 : (plan.count + plan.chunk - 1) / plan.chunk;
  plan.is_sliced =
      operation.kind == OperationKind::kAllReduce && size_ > 2 && plan.count * element > kSmallBytes;
  return plan;
}

// Returns how many steps an all-to-all with unequal parts takes: the number of chunks in the largest part
// that any member sends to another member.
uint64_t LocalCommunicator::most_chunks(const Operation& operation, const Plan& plan) const {
  uint64_t most = 1;
  for (int from = 0; from < size_; ++from) {
    for (int to = 0; to < size_; ++to) {
      if (from != to) most = std::max(most, parts_of(from, operation).sent[to]);
    }
  }
  return (most + plan.chunk - 1) / plan.chunk;
}

// Returns the slice of a chunk that `member` reduces. It consists of whole cache lines, so that no two
// members write to the same line.
LocalCommunicator::Range LocalCommunicator::slice_of(uint64_t length, int member, size_t element_bytes) const {
  const uint64_t line = 64 / element_bytes;
  const uint64_t members = static_cast<uint64_t>(size_);
  const uint64_t share = ((length + members - 1) / members + line - 1) / line * line;
  const uint64_t start = std::min(length, share * static_cast<uint64_t>(member));
  return {start, std::min(length - start, share)};
}

Status LocalCommunicator::collective(Operation* operation, Call* call) {
  if (operation->progress == 0) begin(operation, call);
  Plan plan = plan_of(*operation);
  const uint64_t first = first_step_;
  for (uint64_t step = 0; step < plan.num_steps(); ++step) {
    MTL_RETURN_IF_ERROR(wait_for_all(first + step, call));
    if (step == 0) MTL_RETURN_IF_ERROR(compare_descriptions(*operation, call));
    if (!plan.is_known) {
      MTL_RETURN_IF_ERROR(compare_parts(*operation, call));
      plan.num_chunks = most_chunks(*operation, plan);
      plan.is_known = true;
    }
    const bool is_last = step + 1 == plan.num_steps();
    if (plan.is_sliced) {
      // between two barriers, three chunks are in progress: step+1 is written, step is reduced, step-1 is
      // read
      if (step + 1 < plan.num_chunks) give(*operation, plan, step + 1, call);
      if (step < plan.num_chunks) reduce_slice(*operation, plan, step, call);
      if (!is_last) arrive();
      if (step > 0) take_slices(*operation, plan, step - 1);
    } else {
      if (!is_last) {
        give(*operation, plan, step + 1, call);
        arrive();
      }
      take(*operation, plan, step);
    }
  }
  return ok_status();
}

// Copies the part of the input that this member sends to itself directly to the output, without a buffer.
void LocalCommunicator::copy_own_part(const Operation& operation) const {
  const uint64_t rank = static_cast<uint64_t>(rank_);
  const char* source = at(operation.input, 0);
  char* target = at(operation.output, 0);
  uint64_t bytes = 0;
  if (operation.kind == OperationKind::kAllGather) {
    bytes = operation.input_bytes;
    target += rank * bytes;
  } else if (operation.kind == OperationKind::kAllToAll) {
    const uint64_t element = size_of(operation.description.dtype);
    const Range sent = operation.part_to(rank_, size_);
    bytes = sent.length * element;
    source += sent.start * element;
    target += operation.part_from(rank_, size_).start * element;
  }
  if (bytes > 0 && source != target) std::memcpy(target, source, bytes);
}

// Copies chunk `index` of this member's input into its buffer, and counts the bytes that other members will
// read.
void LocalCommunicator::give(const Operation& operation, const Plan& plan, uint64_t index, Call* call) {
  const uint64_t element = size_of(operation.description.dtype);
  const uint64_t length = plan.length(index);
  const uint64_t start = index * plan.chunk;
  char* target = buffer(rank_, first_step_ + index);
  if (operation.kind == OperationKind::kAllToAll) {
    for (int member = 0; member < size_; ++member) {
      if (member == rank_) continue;
      const Range chunk = plan.chunk_of(operation.part_to(member, size_), index);
      if (chunk.length == 0) continue;
      std::memcpy(target + static_cast<uint64_t>(member) * plan.chunk * element, at(operation.input, chunk.start * element),
                  chunk.length * element);
      call->sent_bytes += chunk.length * element;
    }
    return;
  }
  if (length == 0) return;
  const uint64_t others = static_cast<uint64_t>(size_ - 1);
  switch (operation.kind) {
    case OperationKind::kAllReduce: {
      const char* source = at(operation.input, start * element);
      if (!plan.is_sliced) {
        std::memcpy(target, source, length * element);
        call->sent_bytes += length * element * others;
        return;
      }
      // this member's own slice is not copied, because it is read from the tensor itself
      const Range own = slice_of(length, rank_, element);
      const uint64_t after = own.start + own.length;
      std::memcpy(target, source, own.start * element);
      std::memcpy(target + after * element, source + after * element, (length - after) * element);
      call->sent_bytes += (length - own.length) * element;
      return;
    }
    case OperationKind::kBroadcast:
      if (operation.description.root != rank_) return;
      [[fallthrough]];
    case OperationKind::kAllGather:
      std::memcpy(target, at(operation.input, start * element), length * element);
      call->sent_bytes += length * element * others;
      return;
    case OperationKind::kReduceScatter:
      for (int member = 0; member < size_; ++member) {
        if (member == rank_) continue;
        const uint64_t part = static_cast<uint64_t>(member);
        std::memcpy(target + part * plan.chunk * element, at(operation.input, (part * plan.count + start) * element),
                    length * element);
        call->sent_bytes += length * element;
      }
      return;
    default:
      return;  // a barrier has no data
  }
}

// Copies the data of the other members in chunk `index` into the output.
void LocalCommunicator::take(const Operation& operation, const Plan& plan, uint64_t index) {
  const uint64_t element = size_of(operation.description.dtype);
  const uint64_t length = plan.length(index);
  const uint64_t start = index * plan.chunk;
  const uint64_t step = first_step_ + index;
  const uint64_t own = static_cast<uint64_t>(rank_);
  if (operation.kind == OperationKind::kAllToAll) {
    for (int member = 0; member < size_; ++member) {
      if (member == rank_) continue;
      const Range chunk = plan.chunk_of(operation.part_from(member, size_), index);
      if (chunk.length == 0) continue;
      std::memcpy(at(operation.output, chunk.start * element), buffer(member, step) + own * plan.chunk * element,
                  chunk.length * element);
    }
    return;
  }
  if (length == 0) return;
  const bool is_reduction =
      operation.kind == OperationKind::kAllReduce || operation.kind == OperationKind::kReduceScatter;
  if (is_reduction) {
    const bool is_scatter = operation.kind == OperationKind::kReduceScatter;
    const void* sources[kMaxMembers];
    for (int member = 0; member < size_; ++member) {
      sources[member] = buffer(member, step) + (is_scatter ? own * plan.chunk * element : 0);
    }
    sources[rank_] = at(operation.input, ((is_scatter ? own * plan.count : 0) + start) * element);
    reduce_function(operation.description.dtype, operation.description.reduction)(
        sources, size_, at(operation.output, start * element), length);
    return;
  }
  for (int member = 0; member < size_; ++member) {
    if (member == rank_) continue;
    const uint64_t part = static_cast<uint64_t>(member);
    if (operation.kind == OperationKind::kAllGather) {
      std::memcpy(at(operation.output, (part * plan.count + start) * element), buffer(member, step), length * element);
    } else if (operation.kind == OperationKind::kBroadcast && operation.description.root == member) {
      std::memcpy(at(operation.output, start * element), buffer(member, step), length * element);
    }
  }
}

// Sums this member's slice of chunk `index`, and writes the result to the tensor and to the buffer that other
// members read.
void LocalCommunicator::reduce_slice(const Operation& operation, const Plan& plan, uint64_t index, Call* call) {
  const uint64_t element = size_of(operation.description.dtype);
  const uint64_t step = first_step_ + index;
  const Range own = slice_of(plan.length(index), rank_, element);
  if (own.length == 0) return;
  char* target = at(operation.output, (index * plan.chunk + own.start) * element);
  const void* sources[kMaxMembers];
  for (int member = 0; member < size_; ++member) sources[member] = buffer(member, step) + own.start * element;
  sources[rank_] = at(operation.input, (index * plan.chunk + own.start) * element);
  reduce_function(operation.description.dtype, operation.description.reduction)(sources, size_, target, own.length);
  std::memcpy(result(rank_, step), target, own.length * element);
  call->sent_bytes += own.length * element * static_cast<uint64_t>(size_ - 1);
}

// Copies the other members' slices of chunk `index` into the tensor.
void LocalCommunicator::take_slices(const Operation& operation, const Plan& plan, uint64_t index) {
  const uint64_t element = size_of(operation.description.dtype);
  for (int member = 0; member < size_; ++member) {
    if (member == rank_) continue;
    const Range slice = slice_of(plan.length(index), member, element);
    std::memcpy(at(operation.output, (index * plan.chunk + slice.start) * element),
                result(member, first_step_ + index), slice.length * element);
  }
}

}  // namespace mtl::comm::local
