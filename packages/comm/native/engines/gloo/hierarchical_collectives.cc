// Collectives in three stages: within the host, across hosts, within the host. H hosts of m members each, n =
// H m; k elements are one member's part.
#include <cstring>

#include "engines/gloo/hierarchical_communicator.h"

namespace mtl::comm::gloo {
namespace {

// Chunk size of an all-reduce: limits the scratch memory.
constexpr uint64_t kChunkElements = 4 * 1024 * 1024;

// Sums of 16-bit floats stay in float32 until the last addend.
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

// Reduce-scattered over the members of the host, reduced among peers, gathered.
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
    // round first: half the bytes for the others to read
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
  // [m][H][k]: the data that a member of this host reduces for its peers is contiguous
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

Status HierarchicalCommunicator::all_to_all(const Operation& operation, Call* call) {
  const uint64_t members = topology_.own_members().size();
  const uint64_t num_hosts = static_cast<uint64_t>(topology_.num_hosts());
  const size_t part = operation.input_bytes / (members * num_hosts);
  const size_t bytes = operation.input_bytes;
  const char* input = static_cast<const char*>(operation.input);
  char* first = scratch(0, bytes);
  char* second = scratch(1, bytes);
  if (bytes == 0) return ok_status();
  // [m][H][k]: for each member of this host, the data for it and its peers
  for_each_member([&](size_t member, size_t host, size_t place) {
    std::memcpy(first + (place * num_hosts + host) * part, input + member * part, part);
  });
  MTL_RETURN_IF_ERROR(in_host({OperationKind::kAllToAll, first, second, bytes, bytes}, call));
  // by sender [m][H][k], to [H][m][k]: the data for a host is contiguous
  for (uint64_t place = 0; place < members; ++place) {
    for (uint64_t host = 0; host < num_hosts; ++host) {
      std::memcpy(first + (host * members + place) * part, second + (place * num_hosts + host) * part, part);
    }
  }
  MTL_RETURN_IF_ERROR(
      between_hosts(call, [&](Call* inner) { return peers_.all_to_all(first, second, members * part, inner); }));
  char* output = static_cast<char*>(operation.output);
  for_each_member([&](size_t member, size_t host, size_t place) {
    std::memcpy(output + member * part, second + (host * members + place) * part, part);
  });
  return ok_status();
}

}  // namespace mtl::comm::gloo
