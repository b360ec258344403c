#include "core/operation.h"

#include "core/status.h"

namespace mtl::comm {

const char* name_of(OperationKind kind) {
  constexpr const char* names[kNumOperationKinds] = {"allReduce", "allGather", "reduceScatter", "broadcast",
                                                     "allToAll",  "send",      "receive",       "barrier"};
  const int index = static_cast<int>(kind);
  return index >= 0 && index < kNumOperationKinds ? names[index] : "an unknown operation";
}

std::string to_text(const Description& description) {
  constexpr const char* reductions[] = {"sum", "max", "min"};
  const char* operation = description.kind == OperationKind::kSend ? "message" : name_of(description.kind);
  if (description.kind == OperationKind::kBarrier) return operation;
  std::string text = operation;
  if (description.kind == OperationKind::kAllReduce || description.kind == OperationKind::kReduceScatter) {
    text += std::string(" ") + reductions[static_cast<int>(description.reduction) % 3];
  }
  if (description.kind == OperationKind::kBroadcast) text += format_text(" root %d", description.root);
  if (description.count == kUnequalParts) return text + format_text(" %s in unequal parts", name_of(description.dtype));
  return text + format_text(" %s %llu", name_of(description.dtype), static_cast<unsigned long long>(description.count));
}

namespace {

std::vector<ElementRange> one_after_the_other(const std::vector<uint64_t>& lengths) {
  std::vector<ElementRange> ranges;
  uint64_t start = 0;
  for (const uint64_t length : lengths) {
    ranges.push_back({start, length});
    start += length;
  }
  return ranges;
}

ElementRange equal_part(uint64_t count, int member, int size) {
  const uint64_t length = count / static_cast<uint64_t>(size);
  return {static_cast<uint64_t>(member) * length, length};
}

}  // namespace

Parts Parts::of(const std::vector<uint64_t>& sent, const std::vector<uint64_t>& received) {
  return {one_after_the_other(sent), one_after_the_other(received)};
}

ElementRange Operation::part_to(int member, int size) const {
  return parts == nullptr ? equal_part(description.count, member, size) : parts->sent[static_cast<size_t>(member)];
}

ElementRange Operation::part_from(int member, int size) const {
  return parts == nullptr ? equal_part(description.count, member, size) : parts->received[static_cast<size_t>(member)];
}

std::string Operation::sequence_text() const {
  return format_text("%s %llu", is_message(kind) ? "message" : "collective",
                     static_cast<unsigned long long>(description.sequence));
}

}  // namespace mtl::comm
