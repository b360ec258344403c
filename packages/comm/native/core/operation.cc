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
  return text + format_text(" %s %llu", name_of(description.dtype), static_cast<unsigned long long>(description.count));
}

std::string Operation::sequence_text() const {
  return format_text("%s %llu", is_message(kind) ? "message" : "collective",
                     static_cast<unsigned long long>(description.sequence));
}

}  // namespace mtl::comm
