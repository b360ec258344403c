#include "engines/gloo/gloo_collectives.h"

#include <algorithm>
#include <cstring>

#include "engines/local/reduce.h"

namespace mtl::comm::gloo {
namespace {

// The size of a chunk between two members. While one chunk is reduced, the next is transferred.
constexpr uint64_t kChunkBytes = 512 * 1024;
// For tensors of at most this many bytes, every member sends all its data to all other members. Such an
// all-reduce takes one round trip instead of two, which saves more time than the additional bytes cost.
constexpr uint64_t kSmallBytes = 8 * 1024;

// Converts the pointer for a transfer, whose interface requires writable memory although a send only reads
// the memory.
void* sendable(const void* data) { return const_cast<void*>(data); }

uint64_t ceil_divide(uint64_t numerator, uint64_t denominator) { return (numerator + denominator - 1) / denominator; }

// The division of an array into chunks of `chunk` elements for transfer.
struct Chunks {
  uint64_t count, chunk;
  size_t element;

  Chunks(const Values& values, uint64_t chunk_bytes)
      : count(values.count), chunk(chunk_bytes / size_of(values.dtype)), element(size_of(values.dtype)) {}
  uint64_t number() const { return ceil_divide(count, chunk); }
  uint64_t length(uint64_t index) const { return std::min(chunk, count - index * chunk); }
  uint64_t bytes(uint64_t index) const { return length(index) * element; }
  uint64_t at(uint64_t index) const { return index * chunk * element; }  // byte offset
  uint64_t most_bytes() const { return std::min(chunk, count) * element; }
};

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

char* GlooCollectives::scratch(uint64_t chunk, int index) const {
  const size_t place = chunk % 2 * static_cast<size_t>(size()) + static_cast<size_t>(index);
  return const_cast<char*>(scratch_.data()) + place * part_bytes_;
}

Status GlooCollectives::all_reduce(void* data, const Values& values, Call* call) {
  if (size() == 1 || values.count == 0) return ok_status();
  const bool is_direct = size() == 2 || values.count * size_of(values.dtype) <= kSmallBytes;
  char* bytes = static_cast<char*>(data);
  return is_direct ? all_reduce_direct(bytes, values, call) : all_reduce_in_parts(bytes, values, call);
}

// Sums the values of a chunk in member order, from `own` and the other members' values, and writes the result
// to `output`.
void GlooCollectives::combine(uint64_t index, const Values& values, const void* own, void* output) const {
  std::vector<const void*> sources(members_.size());
  for (int other = 0; other < size(); ++other) sources[static_cast<size_t>(other)] = scratch(index, other);
  sources[static_cast<size_t>(own_)] = own;
  local::reduce_function(values.dtype, values.reduction)(sources.data(), size(), output, values.count);
}

// All-reduces small tensors: every member sends all its values to all others and computes the whole sum.
Status GlooCollectives::all_reduce_direct(char* data, const Values& values, Call* call) {
  const Chunks chunks(values, kChunkBytes);
  reserve(chunks.most_bytes());
  PendingTransfers pending[2];
  const auto start = [&](uint64_t index) {
    std::vector<Transfer> transfers;
    for (int other = 0; other < size(); ++other) {
      if (other == own_) continue;
      const int member = members_[static_cast<size_t>(other)];
      transfers.push_back({member, Channel::kData, false, scratch(index, other), chunks.bytes(index)});
      transfers.push_back({member, Channel::kData, true, data + chunks.at(index), chunks.bytes(index)});
    }
    return mesh_->start(transfers, call, &pending[index % 2]);
  };
  MTL_RETURN_IF_ERROR(start(0));
  for (uint64_t index = 0; index < chunks.number(); ++index) {
    if (index + 1 < chunks.number()) MTL_RETURN_IF_ERROR(start(index + 1));
    MTL_RETURN_IF_ERROR(mesh_->finish(&pending[index % 2], call));
    char* own = data + chunks.at(index);
    combine(index, {chunks.length(index), values.dtype, values.reduction}, own, own);
  }
  return ok_status();
}

// All-reduces large tensors: each member reduces one part of a chunk and sends the result to the other
// members. A member sends `2 * (n - 1) / n` times the bytes of the tensor.
Status GlooCollectives::all_reduce_in_parts(char* data, const Values& values, Call* call) {
  const Chunks chunks(values, kChunkBytes * static_cast<uint64_t>(size()));
  const size_t element = chunks.element;
  reserve(kChunkBytes);
  PendingTransfers scatters[2], gathers[2];
  // sends each part of the chunk to the member that reduces the part, and receives the values that the other
  // members have for this member's part
  const auto scatter = [&](uint64_t index) {
    std::vector<Transfer> transfers;
    char* base = data + chunks.at(index);
    const Range own = part_of(chunks.length(index), own_);
    for (int other = 0; other < size(); ++other) {
      if (other == own_) continue;
      const int member = members_[static_cast<size_t>(other)];
      const Range theirs = part_of(chunks.length(index), other);
      transfers.push_back({member, Channel::kData, false, scratch(index, other), own.length * element});
      transfers.push_back({member, Channel::kData, true, base + theirs.start * element, theirs.length * element});
    }
    return mesh_->start(transfers, call, &scatters[index % 2]);
  };
  const auto gather = [&](uint64_t index) {
    std::vector<Transfer> transfers;
    char* base = data + chunks.at(index);
    const Range own = part_of(chunks.length(index), own_);
    for (int other = 0; other < size(); ++other) {
      if (other == own_) continue;
      const int member = members_[static_cast<size_t>(other)];
      const Range theirs = part_of(chunks.length(index), other);
      transfers.push_back({member, Channel::kData, false, base + theirs.start * element, theirs.length * element});
      transfers.push_back({member, Channel::kData, true, base + own.start * element, own.length * element});
    }
    return mesh_->start(transfers, call, &gathers[index % 2]);
  };
  MTL_RETURN_IF_ERROR(scatter(0));
  for (uint64_t index = 0; index < chunks.number(); ++index) {
    if (index + 1 < chunks.number()) MTL_RETURN_IF_ERROR(scatter(index + 1));
    MTL_RETURN_IF_ERROR(mesh_->finish(&scatters[index % 2], call));
    const Range part = part_of(chunks.length(index), own_);
    char* own = data + chunks.at(index) + part.start * element;
    combine(index, {part.length, values.dtype, values.reduction}, own, own);
    MTL_RETURN_IF_ERROR(gather(index));
    if (index > 0) MTL_RETURN_IF_ERROR(mesh_->finish(&gathers[(index - 1) % 2], call));
  }
  return mesh_->finish(&gathers[(chunks.number() - 1) % 2], call);
}

Status GlooCollectives::reduce_scatter(const void* input, void* output, const Values& values, Call* call) {
  const Chunks chunks(values, kChunkBytes);
  const char* parts = static_cast<const char*>(input);
  const auto part = [&](int index) { return parts + static_cast<uint64_t>(index) * values.count * chunks.element; };
  reserve(chunks.most_bytes());
  PendingTransfers pending[2];
  const auto start = [&](uint64_t index) {
    std::vector<Transfer> transfers;
    for (int other = 0; other < size(); ++other) {
      if (other == own_) continue;
      const int member = members_[static_cast<size_t>(other)];
      transfers.push_back({member, Channel::kData, false, scratch(index, other), chunks.bytes(index)});
      transfers.push_back({member, Channel::kData, true, sendable(part(other) + chunks.at(index)), chunks.bytes(index)});
    }
    return mesh_->start(transfers, call, &pending[index % 2]);
  };
  if (chunks.number() > 0) MTL_RETURN_IF_ERROR(start(0));
  for (uint64_t index = 0; index < chunks.number(); ++index) {
    if (index + 1 < chunks.number()) MTL_RETURN_IF_ERROR(start(index + 1));
    MTL_RETURN_IF_ERROR(mesh_->finish(&pending[index % 2], call));
    combine(index, {chunks.length(index), values.dtype, values.reduction}, part(own_) + chunks.at(index),
            static_cast<char*>(output) + chunks.at(index));
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

Status GlooCollectives::all_to_all(const void* input, void* output, const Exchange& exchange, Call* call) {
  const char* outgoing = static_cast<const char*>(input);
  char* incoming = static_cast<char*>(output);
  std::vector<Transfer> transfers;
  for (int other = 0; other < size(); ++other) {
    const ByteRange sent = exchange.sent[static_cast<size_t>(other)], received = exchange.received[static_cast<size_t>(other)];
    if (other == own_) {
      if (sent.length > 0) std::memcpy(incoming + received.start, outgoing + sent.start, sent.length);
      continue;
    }
    const int member = members_[static_cast<size_t>(other)];
    transfers.push_back({member, Channel::kData, false, incoming + received.start, received.length});
    transfers.push_back({member, Channel::kData, true, sendable(outgoing + sent.start), sent.length});
  }
  return mesh_->run(transfers, call);
}

Status GlooCollectives::agree_on_parts(const Parts& parts, Call* call) {
  std::vector<uint64_t> theirs(members_.size());
  std::vector<Transfer> transfers;
  for (int other = 0; other < size(); ++other) {
    if (other == own_) continue;
    const size_t index = static_cast<size_t>(other);
    const int member = members_[index];
    transfers.push_back({member, Channel::kData, false, &theirs[index], sizeof(uint64_t)});
    transfers.push_back({member, Channel::kData, true, sendable(&parts.sent[index].length), sizeof(uint64_t)});
  }
  const uint64_t sent = call->sent_bytes;
  MTL_RETURN_IF_ERROR(mesh_->run(transfers, call));
  call->sent_bytes = sent;  // without the bytes of the agreement
  for (int other = 0; other < size(); ++other) {
    const size_t index = static_cast<size_t>(other);
    if (other != own_) MTL_RETURN_IF_ERROR(call->compare_parts(members_[index], members_[static_cast<size_t>(own_)], theirs[index], parts.received[index].length));
  }
  return ok_status();
}

}  // namespace mtl::comm::gloo
