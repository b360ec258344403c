// Stages, agreement and messages of the engine; its collectives are in hierarchical_collectives.cc.
#include "engines/gloo/hierarchical_communicator.h"

#include <algorithm>
#include <map>

namespace mtl::comm::gloo {
Topology::Topology(const std::vector<int>& host_of, int member) {
  std::map<int, size_t> index_of;
  for (size_t position = 0; position < host_of.size(); ++position) {
    const auto [found, is_new] = index_of.emplace(host_of[position], hosts.size());
    if (is_new) hosts.emplace_back();
    std::vector<int>& host = hosts[found->second];
    if (static_cast<int>(position) == member) {
      own_host = static_cast<int>(found->second);
      own_place = static_cast<int>(host.size());
    }
    host.push_back(static_cast<int>(position));
  }
  for (const auto& host : hosts) is_even = is_even && host.size() == hosts.front().size();
}

std::vector<int> Topology::peers() const {
  std::vector<int> members;
  if (!is_even && own_place != 0) return members;
  for (const auto& host : hosts) members.push_back(host[static_cast<size_t>(own_place)]);
  // the list is in the order of hosts: ascending for leaders, and also ascending for peers if each host has
  // consecutive ranks
  return members;
}

HierarchicalCommunicator::HierarchicalCommunicator(Topology topology, std::unique_ptr<GlooMesh> mesh,
                                                   std::unique_ptr<local::LocalCommunicator> local)
    : topology_(std::move(topology)),
      mesh_(std::move(mesh)),
      local_(std::move(local)),
      peers_(mesh_.get(), topology_.peers()),
      everybody_(mesh_.get(), mesh_->group().members()) {
  group_ = mesh_->group();
  host_ = group_;
  host_.ranks.clear();
  for (const int member : topology_.own_members()) host_.ranks.push_back(group_.ranks[static_cast<size_t>(member)]);
  host_.rank = topology_.own_place;
  if (local_ != nullptr) local_->set_patience(3 * patience_ns());
}

// How much longer, in nanoseconds, a member waits for another host than for a member of its own host. This
// difference exceeds the skew between the ranks of a host.
int64_t HierarchicalCommunicator::patience_ns() const {
  return std::clamp<int64_t>(group_.timeout_ns / 5, 300 * kMillisecond, 2000 * kMillisecond);
}

void HierarchicalCommunicator::leave() {
  if (local_ != nullptr) local_->leave();
  mesh_->leave();
}

// Executes a step among the members of this host. After they have agreed on the operation, all members of the
// host take the same steps in the same order, so the local engine's own descriptions, which are numbered by
// step, are always equal.
Status HierarchicalCommunicator::in_host(const LocalStep& step, Call* call) {
  if (local_ == nullptr) return ok_status();
  Operation operation;
  operation.kind = step.kind;
  operation.description.sequence = num_local_steps_++;
  operation.description.kind = step.kind;
  operation.description.count = step.parts == nullptr ? step.input_count : kUnequalParts;
  operation.parts = step.parts;
  operation.description.dtype = step.dtype;
  operation.description.reduction = step.reduction;
  operation.description.root = step.root;
  operation.peer = step.root;
  operation.input = step.input;
  operation.output = step.output;
  operation.input_bytes = step.input_count * size_of(step.dtype);
  operation.output_bytes = step.output_count * size_of(step.dtype);
  Call inner = *call;
  inner.group = &host_;
  inner.whole = &group_;
  const Status status = local_->execute(&operation, &inner);
  call->sent_bytes = inner.sent_bytes;
  return status;
}

Status HierarchicalCommunicator::between_hosts(Call* call, const std::function<Status(Call*)>& body) {
  GroupIdentity group = group_;
  group.timeout_ns += patience_ns();
  Call inner = *call;
  inner.group = &group;
  inner.whole = &group_;
  const std::function<void()> look = [this] { local_->set_away(now_ns()); };
  if (local_ != nullptr) {
    inner.looking = &look;
    look();
  }
  const Status status = body(&inner);
  // after a failure, this member continues to count as waiting, because the other members are about to learn
  // of the failure and must not blame this member before that
  if (local_ != nullptr && status.ok()) local_->set_away(0);
  call->sent_bytes = inner.sent_bytes;
  return status;
}

// Compares descriptions among all members of the host, then among peers. If both comparisons succeed, all
// members of the group have agreed.
Status HierarchicalCommunicator::agree(Call* call) {
  const Description own = call->operation->description;
  if (local_ != nullptr) {
    const std::vector<int>& members = topology_.own_members();
    std::vector<Description> all(members.size());
    const uint64_t sent = call->sent_bytes;
    MTL_RETURN_IF_ERROR(in_host({OperationKind::kAllGather, &own, all.data(), sizeof(own), sizeof(own) * all.size()}, call));
    call->sent_bytes = sent;  // descriptions are not counted
    for (size_t place = 0; place < all.size(); ++place) {
      if (!(all[place] == own)) return call->mismatch(members[place], all[place]);
    }
  }
  // an operation that sends data directly between all members requires the agreement of all members
  const std::vector<int>& members = is_direct(own.kind) ? everybody_.members() : peers_.members();
  if (members.empty()) return ok_status();
  return between_hosts(call, [&](Call* inner) { return mesh_->agree(members, inner); });
}

bool HierarchicalCommunicator::is_direct(OperationKind kind) const {
  return !topology_.is_even && (kind == OperationKind::kReduceScatter || kind == OperationKind::kAllGather ||
                                kind == OperationKind::kAllToAll);
}

// Sends a message to a rank of this host, or receives one from it. If `begun` is null, the whole operation is
// executed.
Status HierarchicalCommunicator::message(Operation* operation, Call* call, Begun* begun) {
  const std::vector<int>& members = topology_.own_members();
  const auto peer = std::find(members.begin(), members.end(), operation->peer);
  if (peer == members.end() || local_ == nullptr) {
    if (begun == nullptr) return run_message(mesh_.get(), *operation, call);
    *begun = Begun::kUnfinished;
    return ok_status();
  }
  Operation inner_operation = *operation;
  inner_operation.peer = static_cast<int>(peer - members.begin());
  Call inner = *call;
  inner.group = &host_;
  inner.whole = &group_;
  Status status;
  if (begun == nullptr) {
    status = local_->execute(&inner_operation, &inner);
  } else {
    *begun = local_->begin(&inner_operation, &inner);
  }
  operation->progress = inner_operation.progress;
  call->sent_bytes = inner.sent_bytes;
  return status;
}

Begun HierarchicalCommunicator::begin(Operation* operation, Call* call) {
  Begun begun = Begun::kUnfinished;
  if (is_message(operation->kind)) static_cast<void>(message(operation, call, &begun));
  return begun;
}

Status HierarchicalCommunicator::execute(Operation* operation, Call* call) {
  if (is_message(operation->kind)) return message(operation, call, nullptr);
  MTL_RETURN_IF_ERROR(agree(call));
  switch (operation->kind) {
    case OperationKind::kAllReduce:
      return all_reduce(*operation, call);
    case OperationKind::kBroadcast:
      return broadcast(*operation, call);
    case OperationKind::kBarrier:
      // if all hosts have the same number of members, every member took part in the agreement; otherwise only
      // the leaders did, and the other members must wait for their leader
      if (topology_.is_even) return ok_status();
      return in_host({OperationKind::kBarrier, nullptr, nullptr, 0, 0}, call);
    default:
      break;
  }
  if (is_direct(operation->kind)) {
    return between_hosts(call, [&](Call* inner) { return run_collective(&everybody_, *operation, inner); });
  }
  if (operation->kind == OperationKind::kReduceScatter) return reduce_scatter(*operation, call);
  if (operation->kind == OperationKind::kAllGather) return all_gather(*operation, call);
  return all_to_all(*operation, call);
}

char* HierarchicalCommunicator::scratch(int index, size_t bytes) {
  std::vector<char>& memory = scratch_[index];
  if (memory.size() < bytes) memory.resize(bytes);
  return memory.data();
}

}  // namespace mtl::comm::gloo
