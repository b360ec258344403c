// Collectives in three stages: within the host, across hosts, and again within the host. Notation: H hosts
// with m members each, `n = H * m` members in total; k is the number of elements in one member's part.
#include <algorithm>
#include <cstring>

#include "engines/gloo/hierarchical_communicator.h"

namespace mtl::comm::gloo {
namespace {

// The size of a chunk of an all-reduce, which limits the scratch memory.
constexpr uint64_t kChunkElements = 4 * 1024 * 1024;

// Returns true for sums of 16-bit floats, which are kept in float32 until the last addend has been added.
bool is_widened(const Values& values) {
  return values.reduction == Reduction::kSum && (values.dtype == DType::kBFloat16 || values.dtype == DType::kFloat16);
}

void copy_or_widen(const Values& values, const char* source, char* target, uint64_t count) {
  if (is_widened(values)) {
    local::widen(values.dtype, source, reinterpret_cast<float*>(target), count);
  } else if (count > 0) {
    std::memcpy(target, source, count * size_of(values.dtype));
  }
}

void copy_or_narrow(const Values& values, const char* source, char* target, uint64_t count) {
  if (is_widened(values)) {
    local::narrow(values.dtype, reinterpret_cast<const float*>(source), target, count);
  } else if (count > 0 && source != target) {
    std::memcpy(target, source, count * size_of(values.dtype));
  }
}

Values widened(Values values) {
  if (is_widened(values)) values.dtype = DType::kFloat32;
  return values;
}

}  // namespace

Status HierarchicalCommunicator::all_reduce(const Operation& operation, Call* call) {
  const Description& description = operation.description;
  char* data = static_cast<char*>(operation.output);
  const uint64_t element = size_of(description.dtype);
  for (uint64_t start = 0; start < description.count; start += kChunkElements) {
    const Values values{std::min(kChunkElements, description.count - start), description.dtype, description.reduction};
    char* chunk = data + start * element;
    MTL_RETURN_IF_ERROR(topology_.is_even ? all_reduce_chunk(chunk, values, call)
                                          : all_reduce_by_leaders(chunk, values, call));
  }
  return ok_status();
}

// All-reduces a chunk: reduce-scatter among the members of the host, all-reduce among peers (members with the
// same position on other hosts), all-gather within the host.
Status HierarchicalCommunicator::all_reduce_chunk(char* data, const Values& values, Call* call) {
  const uint64_t members = topology_.own_members().size();
  const uint64_t part = (values.count + members - 1) / members;
  const uint64_t padded = part * members;
  const DType dtype = widened(values).dtype;
  const uint64_t element = size_of(dtype);
  const bool is_in_place = !is_widened(values) && padded == values.count;
  char* whole = data;
  if (!is_in_place) {
    whole = scratch(0, padded * element);
    copy_or_widen(values, data, whole, values.count);
    std::memset(whole + values.count * element, 0, (padded - values.count) * element);
  }
  char* own = whole + static_cast<uint64_t>(topology_.own_place) * part * element;
  MTL_RETURN_IF_ERROR(
      in_host({OperationKind::kReduceScatter, whole, own, padded, part, dtype, values.reduction}, call));
  MTL_RETURN_IF_ERROR(between_hosts(
      call, [&](Call* inner) { return peers_.all_reduce(own, {part, dtype, values.reduction}, inner); }));
  if (is_widened(values)) {
    // rounds to 16 bits before the result is shared, so that the other members read half the bytes
    char* narrow = scratch(1, padded * size_of(values.dtype));
    char* own_narrow = narrow + static_cast<uint64_t>(topology_.own_place) * part * size_of(values.dtype);
    copy_or_narrow(values, own, own_narrow, part);
    MTL_RETURN_IF_ERROR(
        in_host({OperationKind::kAllGather, own_narrow, narrow, part, padded, values.dtype}, call));
    std::memcpy(data, narrow, values.count * size_of(values.dtype));
    return ok_status();
  }
  MTL_RETURN_IF_ERROR(in_host({OperationKind::kAllGather, own, whole, part, padded, dtype}, call));
  if (!is_in_place) std::memcpy(data, whole, values.count * element);
  return ok_status();
}

Status HierarchicalCommunicator::all_reduce_by_leaders(char* data, const Values& values, Call* call) {
  const Values wide = widened(values);
  char* whole = data;
  if (is_widened(values)) {
    whole = scratch(0, values.count * size_of(wide.dtype));
    copy_or_widen(values, data, whole, values.count);
  }
  MTL_RETURN_IF_ERROR(in_host(
      {OperationKind::kAllReduce, whole, whole, wide.count, wide.count, wide.dtype, wide.reduction}, call));
  if (!peers_.members().empty()) {
    MTL_RETURN_IF_ERROR(between_hosts(call, [&](Call* inner) { return peers_.all_reduce(whole, wide, inner); }));
  }
  MTL_RETURN_IF_ERROR(in_host({OperationKind::kBroadcast, whole, whole, wide.count, wide.count, wide.dtype,
                               Reduction::kSum, 0}, call));
  copy_or_narrow(values, whole, data, values.count);
  return ok_status();
}

Status HierarchicalCommunicator::reduce_scatter(const Operation& operation, Call* call) {
  const Description& description = operation.description;
  const uint64_t part = description.count / static_cast<uint64_t>(mesh_->group().size());
  const Values values{part, description.dtype, description.reduction};
  const Values wide = widened(values);
  const uint64_t from = size_of(values.dtype), to = size_of(wide.dtype);
  const char* input = static_cast<const char*>(operation.input);
  const uint64_t num_hosts = static_cast<uint64_t>(topology_.num_hosts());
  // the layout is [m][H][k], so that the data that a member of this host reduces for its peers is contiguous
  char* whole = scratch(0, description.count * to);
  for_each_member([&](size_t member, size_t host, size_t place) {
    copy_or_widen(values, input + member * part * from, whole + (place * num_hosts + host) * part * to, part);
  });
  char* own = whole + static_cast<uint64_t>(topology_.own_place) * num_hosts * part * to;
  MTL_RETURN_IF_ERROR(in_host({OperationKind::kReduceScatter, whole, own, description.count, num_hosts * part,
                               wide.dtype, values.reduction}, call));
  char* result = scratch(1, part * to);
  MTL_RETURN_IF_ERROR(
      between_hosts(call, [&](Call* inner) { return peers_.reduce_scatter(own, result, wide, inner); }));
  copy_or_narrow(values, result, static_cast<char*>(operation.output), part);
  return ok_status();
}

Status HierarchicalCommunicator::all_gather(const Operation& operation, Call* call) {
  const size_t part = operation.input_bytes;
  const uint64_t num_hosts = static_cast<uint64_t>(topology_.num_hosts());
  char* of_peers = scratch(0, num_hosts * part);       // [H][k]
  char* of_all = scratch(1, operation.output_bytes);   // [m][H][k]
  MTL_RETURN_IF_ERROR(
      between_hosts(call, [&](Call* inner) { return peers_.all_gather(operation.input, of_peers, part, inner); }));
  MTL_RETURN_IF_ERROR(
      in_host({OperationKind::kAllGather, of_peers, of_all, num_hosts * part, operation.output_bytes}, call));
  char* output = static_cast<char*>(operation.output);
  for_each_member([&](size_t member, size_t host, size_t place) {
    if (part > 0) std::memcpy(output + member * part, of_all + (place * num_hosts + host) * part, part);
  });
  return ok_status();
}

Status HierarchicalCommunicator::broadcast(const Operation& operation, Call* call) {
  const size_t root = static_cast<size_t>(operation.description.root);
  size_t root_host = 0, root_place = 0;
  for_each_member([&](size_t member, size_t host, size_t place) {
    if (member == root) root_host = host, root_place = place;
  });
  char* data = static_cast<char*>(operation.output);
  const size_t bytes = operation.output_bytes;
  const auto share = [&](size_t place) {
    return in_host({OperationKind::kBroadcast, data, data, bytes, bytes, DType::kUint8, Reduction::kSum,
                    static_cast<int>(place)}, call);
  };
  const auto communicate = [&] {
    return between_hosts(
        call, [&](Call* inner) { return peers_.broadcast(data, bytes, static_cast<int>(root_host), inner); });
  };
  if (topology_.is_even) {
    if (static_cast<size_t>(topology_.own_place) == root_place) MTL_RETURN_IF_ERROR(communicate());
    return share(root_place);
  }
  const bool is_root_host = static_cast<size_t>(topology_.own_host) == root_host;
  if (is_root_host) MTL_RETURN_IF_ERROR(share(root_place));
  if (!peers_.members().empty()) MTL_RETURN_IF_ERROR(communicate());
  return is_root_host ? ok_status() : share(0);
}

Status HierarchicalCommunicator::lengths_of_parts(const Operation& operation, std::vector<uint64_t>* lengths, Call* call) {
  const size_t members = static_cast<size_t>(group_.size());
  std::vector<uint64_t> own, all(2 * members * members);  // [sent, received] of every member
  for (const ElementRange& part : operation.parts->sent) own.push_back(part.length);
  for (const ElementRange& part : operation.parts->received) own.push_back(part.length);
  Operation gathering;
  gathering.kind = OperationKind::kAllGather;
  gathering.input = own.data();
  gathering.output = all.data();
  gathering.input_bytes = own.size() * sizeof(uint64_t);
  gathering.output_bytes = all.size() * sizeof(uint64_t);
  const uint64_t sent = call->sent_bytes;
  MTL_RETURN_IF_ERROR(all_gather(gathering, call));
  call->sent_bytes = sent;  // without the bytes of the agreement
  for (size_t from = 0; from < members; ++from) {
    for (size_t to = 0; to < members; ++to) {
      const uint64_t length = all[2 * from * members + to];
      MTL_RETURN_IF_ERROR(call->compare_parts(static_cast<int>(from), static_cast<int>(to), length,
                                              all[(2 * to + 1) * members + from]));
      lengths->push_back(length);
    }
  }
  return ok_status();
}

Status HierarchicalCommunicator::all_to_all(const Operation& operation, Call* call) {
  std::vector<uint64_t> lengths;  // the lengths of the parts if they are unequal; otherwise empty
  if (operation.parts != nullptr) MTL_RETURN_IF_ERROR(lengths_of_parts(operation, &lengths, call));
  const size_t members = topology_.own_members().size(), num_hosts = topology_.hosts.size();
  const size_t own_host = static_cast<size_t>(topology_.own_host), own_place = static_cast<size_t>(topology_.own_place);
  const uint64_t element = size_of(operation.description.dtype);
  const auto member_at = [&](size_t host, size_t place) { return topology_.hosts[host][place]; };
  const size_t size = static_cast<size_t>(group_.size());
  const auto bytes_between = [&](int from, int to) {
    if (operation.parts == nullptr) return operation.input_bytes / size;
    return static_cast<size_t>(lengths[static_cast<size_t>(from) * size + static_cast<size_t>(to)] * element);
  };
  const int own = member_at(own_host, own_place);
  // Within the host, the data is ordered [m][H]: each member of this host first has its own data, then the
  // data for its peers.
  std::vector<uint64_t> to_place(members), from_place(members), to_host(num_hosts), from_host(num_hosts);
  size_t passed_on = 0;
  for (size_t place = 0; place < members; ++place) {
    for (size_t host = 0; host < num_hosts; ++host) {
      to_place[place] += bytes_between(own, member_at(host, place));
      const size_t through = bytes_between(member_at(own_host, place), member_at(host, own_place));
      from_place[place] += through;
      to_host[host] += through;
      from_host[host] += bytes_between(member_at(host, place), own);
      passed_on += through;
    }
  }
  char* first = scratch(0, std::max(operation.input_bytes, passed_on));
  char* second = scratch(1, std::max(operation.output_bytes, passed_on));
  const char* input = static_cast<const char*>(operation.input);
  size_t at = 0;
  const auto append = [&](char* target, const char* source, size_t bytes) {
    if (bytes > 0) std::memcpy(target + at, source, bytes);
    at += bytes;
  };
  for (size_t place = 0; place < members; ++place) {
    for (size_t host = 0; host < num_hosts; ++host) {
      const int member = member_at(host, place);
      append(first, input + operation.part_to(member, group_.size()).start * element, bytes_between(own, member));
    }
  }
  LocalStep within{OperationKind::kAllToAll, first, second, operation.input_bytes, passed_on};
  if (operation.parts != nullptr) within.parts = std::make_shared<const Parts>(Parts::of(to_place, from_place));
  MTL_RETURN_IF_ERROR(in_host(within, call));
  // Reorders from [m][H] (m: the sender on this host) to [H][m], so that the data for each host is
  // contiguous.
  std::vector<size_t> next(members);  // for each sender, the offset of its first byte that is not yet copied
  for (size_t place = 1; place < members; ++place) next[place] = next[place - 1] + from_place[place - 1];
  at = 0;
  for (size_t host = 0; host < num_hosts; ++host) {
    for (size_t place = 0; place < members; ++place) {
      const size_t bytes = bytes_between(member_at(own_host, place), member_at(host, own_place));
      append(first, second + next[place], bytes);
      next[place] += bytes;
    }
  }
  Exchange exchange;
  size_t sent_at = 0, received_at = 0;
  for (size_t host = 0; host < num_hosts; ++host) {
    exchange.sent.push_back({sent_at, to_host[host]});
    exchange.received.push_back({received_at, from_host[host]});
    sent_at += to_host[host];
    received_at += from_host[host];
  }
  MTL_RETURN_IF_ERROR(
      between_hosts(call, [&](Call* inner) { return peers_.all_to_all(first, second, exchange, inner); }));
  char* output = static_cast<char*>(operation.output);
  at = 0;
  for (size_t host = 0; host < num_hosts; ++host) {
    for (size_t place = 0; place < members; ++place) {
      const int member = member_at(host, place);
      const size_t bytes = bytes_between(member, own);
      if (bytes > 0) std::memcpy(output + operation.part_from(member, group_.size()).start * element, second + at, bytes);
      at += bytes;
    }
  }
  return ok_status();
}

}  // namespace mtl::comm::gloo
