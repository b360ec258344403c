#include "engines/gloo/gloo_collectives.h"

#include <algorithm>
#include <cstring>

#include "engines/local/reduce.h"

namespace mtl::comm::gloo {
namespace {

// What one member sends another at a time: the next chunk travels while the last one is added up (bench/README.md).
constexpr uint64_t kChunkBytes = 512 * 1024;
// Up to here every member sends all it has to all others: one trip instead of two matters more than bytes.
constexpr uint64_t kSmallBytes = 8 * 1024;

// Transfers take memory that can be written to; a send only reads it.
void* sendable(const void* data) { return const_cast<void*>(data); }

uint64_t ceil_divide(uint64_t numerator, uint64_t denominator) { return (numerator + denominator - 1) / denominator; }

}  // namespace

GlooCollectives::GlooCollectives(GlooMesh* mesh, std::vector<int> members)
    : mesh_(mesh), members_(std::move(members)) {
  own_ = static_cast<int>(std::find(members_.begin(), members_.end(), mesh->group().rank) - members_.begin());
}

GlooCollectives::Range GlooCollectives::part_of(uint64_t count, int index) const {
  const uint64_t share = ceil_divide(count, static_cast<uint64_t>(size()));
  const uint64_t start = std::min(count, share * static_cast<uint64_t>(index));
  return {start, std::min(share, count - start)};
}

void GlooCollectives::reserve(size_t part_bytes) {
  part_bytes_ = (part_bytes + 63) / 64 * 64;
  const size_t needed = 2 * part_bytes_ * static_cast<size_t>(size());
  if (scratch_.size() < needed) scratch_.resize(needed);
}

char* GlooCollectives::scratch(int parity, int index) const {
  return const_cast<char*>(scratch_.data()) + (static_cast<size_t>(parity * size() + index)) * part_bytes_;
}

Status GlooCollectives::all_reduce(void* data, const Values& values, Call* call) {
  if (size() == 1 || values.count == 0) return ok_status();
  const bool is_direct = size() == 2 || values.count * size_of(values.dtype) <= kSmallBytes;
  char* bytes = static_cast<char*>(data);
  return is_direct ? all_reduce_direct(bytes, values, call) : all_reduce_in_parts(bytes, values, call);
}

// Everybody sends everything and adds up everything.
Status GlooCollectives::all_reduce_direct(char* data, const Values& values, Call* call) {
  const uint64_t element = size_of(values.dtype);
  const uint64_t chunk = kChunkBytes / element;
  const uint64_t num_chunks = ceil_divide(values.count, chunk);
  const auto length = [&](uint64_t index) { return std::min(chunk, values.count - index * chunk); };
  reserve(std::min(chunk, values.count) * element);
  Exchange exchanges[2];
  const auto start = [&](uint64_t index) {
    std::vector<Transfer> transfers;
    for (int other = 0; other < size(); ++other) {
      if (other == own_) continue;
      const int member = members_[static_cast<size_t>(other)];
      const size_t bytes = length(index) * element;
      transfers.push_back({member, Channel::kData, false, scratch(static_cast<int>(index % 2), other), bytes});
      transfers.push_back({member, Channel::kData, true, data + index * chunk * element, bytes});
    }
    return mesh_->start(transfers, call, &exchanges[index % 2]);
  };
  MTL_RETURN_IF_ERROR(start(0));
  std::vector<const void*> sources(members_.size());
  for (uint64_t index = 0; index < num_chunks; ++index) {
    if (index + 1 < num_chunks) MTL_RETURN_IF_ERROR(start(index + 1));
    MTL_RETURN_IF_ERROR(mesh_->finish(&exchanges[index % 2], call));
    char* own = data + index * chunk * element;
    for (int other = 0; other < size(); ++other) {
      sources[static_cast<size_t>(other)] = scratch(static_cast<int>(index % 2), other);
    }
    sources[static_cast<size_t>(own_)] = own;
    local::reduce_function(values.dtype, values.reduction)(sources.data(), size(), own, length(index));
  }
  return ok_status();
}

// Each adds up its part of a chunk and sends the result to the others: 2 (n-1)/n of the bytes.
Status GlooCollectives::all_reduce_in_parts(char* data, const Values& values, Call* call) {
  const uint64_t element = size_of(values.dtype);
  const uint64_t chunk = kChunkBytes / element * static_cast<uint64_t>(size());
  const uint64_t num_chunks = ceil_divide(values.count, chunk);
  const auto base = [&](uint64_t index) { return data + index * chunk * element; };
  const auto length = [&](uint64_t index) { return std::min(chunk, values.count - index * chunk); };
  reserve(kChunkBytes);
  Exchange scatters[2], gathers[2];
  // parts of the chunk to those who add them up, their parts of ours
  const auto scatter = [&](uint64_t index) {
    std::vector<Transfer> transfers;
    const Range own = part_of(length(index), own_);
    for (int other = 0; other < size(); ++other) {
      if (other == own_) continue;
      const int member = members_[static_cast<size_t>(other)];
      const Range theirs = part_of(length(index), other);
      char* incoming = scratch(static_cast<int>(index % 2), other);
      transfers.push_back({member, Channel::kData, false, incoming, own.length * element});
      transfers.push_back({member, Channel::kData, true, base(index) + theirs.start * element, theirs.length * element});
    }
    return mesh_->start(transfers, call, &scatters[index % 2]);
  };
  const auto gather = [&](uint64_t index) {
    std::vector<Transfer> transfers;
    const Range own = part_of(length(index), own_);
    for (int other = 0; other < size(); ++other) {
      if (other == own_) continue;
      const int member = members_[static_cast<size_t>(other)];
      const Range theirs = part_of(length(index), other);
      transfers.push_back({member, Channel::kData, false, base(index) + theirs.start * element, theirs.length * element});
      transfers.push_back({member, Channel::kData, true, base(index) + own.start * element, own.length * element});
    }
    return mesh_->start(transfers, call, &gathers[index % 2]);
  };
  MTL_RETURN_IF_ERROR(scatter(0));
  std::vector<const void*> sources(members_.size());
  for (uint64_t index = 0; index < num_chunks; ++index) {
    if (index + 1 < num_chunks) MTL_RETURN_IF_ERROR(scatter(index + 1));
    MTL_RETURN_IF_ERROR(mesh_->finish(&scatters[index % 2], call));
    const Range part = part_of(length(index), own_);
    char* own = base(index) + part.start * element;
    for (int other = 0; other < size(); ++other) {
      sources[static_cast<size_t>(other)] = scratch(static_cast<int>(index % 2), other);
    }
    sources[static_cast<size_t>(own_)] = own;
    local::reduce_function(values.dtype, values.reduction)(sources.data(), size(), own, part.length);
    MTL_RETURN_IF_ERROR(gather(index));
    if (index > 0) MTL_RETURN_IF_ERROR(mesh_->finish(&gathers[(index - 1) % 2], call));
  }
  return mesh_->finish(&gathers[(num_chunks - 1) % 2], call);
}

Status GlooCollectives::reduce_scatter(const void* input, void* output, const Values& values, Call* call) {
  const uint64_t element = size_of(values.dtype);
  const char* parts = static_cast<const char*>(input);
  const auto part = [&](int index) { return parts + static_cast<uint64_t>(index) * values.count * element; };
  const uint64_t chunk = kChunkBytes / element;
  const uint64_t num_chunks = ceil_divide(values.count, chunk);
  const auto length = [&](uint64_t index) { return std::min(chunk, values.count - index * chunk); };
  reserve(std::min(chunk, values.count) * element);
  Exchange exchanges[2];
  const auto start = [&](uint64_t index) {
    std::vector<Transfer> transfers;
    const size_t bytes = length(index) * element;
    for (int other = 0; other < size(); ++other) {
      if (other == own_) continue;
      const int member = members_[static_cast<size_t>(other)];
      transfers.push_back({member, Channel::kData, false, scratch(static_cast<int>(index % 2), other), bytes});
      transfers.push_back({member, Channel::kData, true, sendable(part(other) + index * chunk * element), bytes});
    }
    return mesh_->start(transfers, call, &exchanges[index % 2]);
  };
  std::vector<const void*> sources(members_.size());
  if (num_chunks > 0) MTL_RETURN_IF_ERROR(start(0));
  for (uint64_t index = 0; index < num_chunks; ++index) {
    if (index + 1 < num_chunks) MTL_RETURN_IF_ERROR(start(index + 1));
    MTL_RETURN_IF_ERROR(mesh_->finish(&exchanges[index % 2], call));
    for (int other = 0; other < size(); ++other) {
      sources[static_cast<size_t>(other)] = scratch(static_cast<int>(index % 2), other);
    }
    sources[static_cast<size_t>(own_)] = part(own_) + index * chunk * element;
    local::reduce_function(values.dtype, values.reduction)(
        sources.data(), size(), static_cast<char*>(output) + index * chunk * element, length(index));
  }
  return ok_status();
}

Status GlooCollectives::all_gather(const void* input, void* output, size_t input_bytes, Call* call) {
  char* parts = static_cast<char*>(output);
  std::vector<Transfer> transfers;
  for (int other = 0; other < size(); ++other) {
    if (other == own_) continue;
    const int member = members_[static_cast<size_t>(other)];
    char* theirs = parts + static_cast<size_t>(other) * input_bytes;
    transfers.push_back({member, Channel::kData, false, theirs, input_bytes});
    transfers.push_back({member, Channel::kData, true, sendable(input), input_bytes});
  }
  char* own = parts + static_cast<size_t>(own_) * input_bytes;
  if (own != input && input_bytes > 0) std::memcpy(own, input, input_bytes);
  return mesh_->run(transfers, call);
}

Status GlooCollectives::broadcast(void* data, size_t bytes, int root, Call* call) {
  std::vector<Transfer> transfers;
  for (int other = 0; other < size(); ++other) {
    if (other == own_ || (own_ != root && other != root)) continue;
    transfers.push_back({members_[static_cast<size_t>(other)], Channel::kData, own_ == root, data, bytes});
  }
  return mesh_->run(transfers, call);
}

Status GlooCollectives::all_to_all(const void* input, void* output, size_t part_bytes, Call* call) {
  const char* outgoing = static_cast<const char*>(input);
  char* incoming = static_cast<char*>(output);
  std::vector<Transfer> transfers;
  for (int other = 0; other < size(); ++other) {
    const size_t at = static_cast<size_t>(other) * part_bytes;
    if (other == own_) {
      if (part_bytes > 0) std::memcpy(incoming + at, outgoing + at, part_bytes);
      continue;
    }
    const int member = members_[static_cast<size_t>(other)];
    transfers.push_back({member, Channel::kData, false, incoming + at, part_bytes});
    transfers.push_back({member, Channel::kData, true, sendable(outgoing + at), part_bytes});
  }
  return mesh_->run(transfers, call);
}

}  // namespace mtl::comm::gloo
