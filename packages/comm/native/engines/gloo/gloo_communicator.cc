#include "engines/gloo/gloo_communicator.h"

namespace mtl::comm::gloo {
GlooCommunicator::GlooCommunicator(std::unique_ptr<GlooMesh> mesh)
    : mesh_(std::move(mesh)), collectives_(mesh_.get(), mesh_->group().members()) {}

Status GlooCommunicator::execute(Operation* operation, Call* call) {
  if (is_message(operation->kind)) return run_message(mesh_.get(), *operation, call);
  MTL_RETURN_IF_ERROR(mesh_->agree(collectives_.members(), call));
  return run_collective(&collectives_, *operation, call);
}

Status run_message(GlooMesh* mesh, const Operation& operation, Call* call) {
  Description description = operation.description;
  if (operation.kind == OperationKind::kSend) {
    return mesh->run({{operation.peer, Channel::kMessageDescription, true, &description, sizeof(description)},
                      {operation.peer, Channel::kMessage, true, const_cast<void*>(operation.input), operation.input_bytes}},
                     call);
  }
  MTL_RETURN_IF_ERROR(
      mesh->run({{operation.peer, Channel::kMessageDescription, false, &description, sizeof(description)}}, call));
  if (!(description == operation.description)) return call->mismatch(operation.peer, description);
  return mesh->run({{operation.peer, Channel::kMessage, false, operation.output, operation.output_bytes}}, call);
}

Status run_collective(GlooCollectives* collectives, const Operation& operation, Call* call) {
  const Description& description = operation.description;
  const uint64_t size = static_cast<uint64_t>(collectives->size());
  Values values{description.count, description.dtype, description.reduction};
  switch (operation.kind) {
    case OperationKind::kAllReduce:
      return collectives->all_reduce(operation.output, values, call);
    case OperationKind::kReduceScatter:
      values.count /= size;
      return collectives->reduce_scatter(operation.input, operation.output, values, call);
    case OperationKind::kAllGather:
      return collectives->all_gather(operation.input, operation.output, operation.input_bytes, call);
    case OperationKind::kBroadcast:
      return collectives->broadcast(operation.output, operation.output_bytes, description.root, call);
    case OperationKind::kAllToAll: {
      if (operation.parts != nullptr) MTL_RETURN_IF_ERROR(collectives->agree_on_parts(*operation.parts, call));
      const size_t element = size_of(description.dtype);
      Exchange exchange;
      for (int member = 0; member < collectives->size(); ++member) {
        const ElementRange to = operation.part_to(member, collectives->size()),
                           from = operation.part_from(member, collectives->size());
        exchange.sent.push_back({to.start * element, to.length * element});
        exchange.received.push_back({from.start * element, from.length * element});
      }
      return collectives->all_to_all(operation.input, operation.output, exchange, call);
    }
    default:
      return ok_status();  // a barrier is complete once all members have agreed on it
  }
}

}  // namespace mtl::comm::gloo
