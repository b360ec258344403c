#include "emulation/async_work.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "emulation/numbers.h"

namespace mtl::emulation {
namespace {

constexpr int kWarpsOfGroup = 4, kMaxWarps = 32;
constexpr uint32_t kAllLanes = 0xffffffffu;
constexpr unsigned char kUnwritten = 0xff;  // initial value of every byte of shared memory (block.cc): NaN

// The 64 bits of an mbarrier. PTX does not document their layout, so this project defines its own.
struct BarrierState {
  uint32_t phase, expected, pending;
  int bytes;  // bytes of copies that the phase still waits for
};
constexpr int kCountBits = 20;  // of a count: enough for the most arrivals that PTX allows, and for a signed byte count
constexpr uint64_t kCountMask = (1u << kCountBits) - 1, kSetUp = 1;

uint64_t pack(const BarrierState& state) {
  const auto bytes = static_cast<uint64_t>(state.bytes + (1 << (kCountBits - 1)));
  // all bits set, the initial value of shared memory, is not a valid barrier
  return state.phase | uint64_t{state.expected} << 1 | uint64_t{state.pending} << (1 + kCountBits) |
         bytes << (1 + 2 * kCountBits) | kSetUp << 62;
}

BarrierState unpack(uint64_t bits) {
  const auto count = [&](int first) { return static_cast<uint32_t>(bits >> first & kCountMask); };
  return {static_cast<uint32_t>(bits & 1), count(1), count(1 + kCountBits),
          static_cast<int>(count(1 + 2 * kCountBits)) - (1 << (kCountBits - 1))};
}

struct BoxCopy {
  unsigned char* to;
  TensorMapFacts from;
  int place[3];
  uint64_t* barrier;
};

struct PendingMatmul {
  WarpGroupMatmul what;
  float* d[32];
  const uint32_t* a[32];
  bool has_read = false;
  std::vector<float> a_values, b_values;  // [16, 16], [16, N]
  int group;
};

struct Warp {
  std::vector<PendingMatmul> matmuls;
  int group = 0;
  bool is_fenced = false;
  size_t num_started = 0;
  int registers = 0;  // per thread; 0: the number at launch
};

// The properties of a started matmul that must be equal in the four warps of a group.
struct Signature {
  uint64_t a_matrix, b_matrix;
  int columns;
  bool accumulate;
  bool operator==(const Signature& other) const {
    return a_matrix == other.a_matrix && b_matrix == other.b_matrix && columns == other.columns &&
           accumulate == other.accumulate;
  }
};

struct AsyncWork {
  std::vector<BoxCopy> copies;
  std::vector<std::pair<const uint64_t*, int>> unpublished;  // barriers, and the threads that initialized them
  std::vector<unsigned char> visible;  // shared memory as asynchronous work sees it; empty: as at the block's start
  Warp warps[kMaxWarps];
  std::vector<Signature> started[kMaxWarps / kWarpsOfGroup];
};

std::vector<AsyncWork> all_work(1);
size_t selected_work = 0;

AsyncWork& work() { return all_work[selected_work]; }

BarrierState state_of(const uint64_t* barrier, Site site) {
  check_shared(barrier, sizeof *barrier, sizeof *barrier, site);
  if (*barrier >> 62 != kSetUp) fail(site, "no mbarrier was set up here");
  for (const auto& [other, thread] : work().unpublished) {
    if (other == barrier && thread != thread_number()) fail(site, "an mbarrier whose initialisation was not made visible");
  }
  return unpack(*barrier);
}

void settle(uint64_t* barrier, BarrierState state) {
  if (state.pending == 0 && state.bytes == 0) {
    state.phase ^= 1;
    state.pending = state.expected;
    wake_waiters(barrier);
  }
  *barrier = pack(state);
}

// --- addresses

// Returns the swizzled form of a shared memory address, for tensor maps and for matrix descriptors. The index
// of the 16-byte unit within `bytes` (128, 64 or 32) is XORed with equally many address bits, starting at bit
// 7.
uint32_t swizzled(uint32_t address, uint32_t bytes) {
  const uint32_t units = bytes / 16;
  return units <= 1 ? address : address ^ ((address >> 7 & (units - 1)) << 4);
}

unsigned char* shared_at(uint32_t address) { return static_cast<unsigned char*>(dynamic_shared()) + address; }
uint32_t address_of(const void* shared) {
  return static_cast<uint32_t>(static_cast<const unsigned char*>(shared) - static_cast<unsigned char*>(dynamic_shared()));
}

// Returns the content of shared memory that asynchronous work can see. Asynchronous work reads through a
// different proxy than threads, and sees a thread's stores only after that thread's fence. Therefore a second
// copy of the memory contains the bytes that are visible to asynchronous work, and every read compares both
// copies. The emulated fence makes the stores of all threads visible. Therefore, if only one thread has no
// fence, this is detected only if that thread stores last.
unsigned char* visible_at(const void* shared) {
  std::vector<unsigned char>& visible = work().visible;
  if (visible.empty()) visible.assign(dynamic_shared_bytes(), kUnwritten);
  return visible.data() + address_of(shared);
}

void check_dynamic(const void* shared, size_t bytes, size_t alignment, Site site) {
  check_shared(shared, bytes, alignment, site);
  if (address_of(shared) + bytes > dynamic_shared_bytes()) fail(site, "a tile in static shared memory, which is not emulated");
}

// --- copies

uint32_t bytes_of_box(const TensorMapFacts& map) { return map.box[0] * map.box[1] * map.box[2] * map.element_bytes; }

// Fails if threads have stored to this shared memory without a fence. On a GPU, such stores may reach memory
// after the bytes of a copy that starts later.
void check_overwritten(const void* shared, size_t bytes, Site site) {
  const auto* const stored = static_cast<const unsigned char*>(shared);
  const unsigned char* const visible = visible_at(shared);
  for (size_t byte = 0; byte < bytes; ++byte) {
    if (stored[byte] == visible[byte]) continue;
    fail(site, "byte %zu of shared memory was stored without fence.proxy.async before the copy overwrites it", address_of(shared) + byte);
  }
}

void perform(const BoxCopy& copy) {
  const TensorMapFacts& map = copy.from;
  uint32_t to = address_of(copy.to);
  for (uint32_t z = 0; z < map.box[2]; ++z) {
    for (uint32_t y = 0; y < map.box[1]; ++y) {
      for (uint32_t x = 0; x < map.box[0]; ++x, to += map.element_bytes) {
        const int64_t at[] = {copy.place[0] + int64_t{x}, copy.place[1] + int64_t{y}, copy.place[2] + int64_t{z}};
        const bool inside = at[0] >= 0 && at[1] >= 0 && at[2] >= 0 && at[0] < map.dims[0] && at[1] < map.dims[1] && at[2] < map.dims[2];
        unsigned char* element = shared_at(swizzled(to, map.swizzle_bytes));
        if (inside) {
          std::memcpy(element, map.data + at[0] * map.element_bytes + at[1] * map.strides[0] + at[2] * map.strides[1],
                      map.element_bytes);
        } else {
          std::memset(element, 0, map.element_bytes);
        }
      }
    }
  }
  std::memcpy(visible_at(copy.to), copy.to, bytes_of_box(map));
  BarrierState state = unpack(*copy.barrier);
  state.bytes -= static_cast<int>(bytes_of_box(map));  // the whole box, including parts outside the tensor
  settle(copy.barrier, state);
}

// --- matmuls

// The fields of a matrix descriptor, in bytes (see "Matrix descriptor format" of wgmma in the PTX ISA).
struct Matrix {
  uint32_t start, leading, stride, swizzle;
};

// Checks that a tile begins where its swizzle pattern (8 rows of `swizzle` bytes) begins, as a base offset of
// 0 requires. If the tile is K-major, a matmul may start at later columns within the pattern's first row.
void check_pattern(const Matrix& matrix, bool is_k_major, Site site) {
  const uint32_t pattern = 8 * matrix.swizzle, inside = matrix.start % pattern;
  if (inside >= (is_k_major ? matrix.swizzle : 1)) {
    fail(site, "a matrix descriptor that starts at byte %u of the swizzle pattern of %u bytes, without a base offset", inside, pattern);
  }
  if (matrix.stride % pattern != 0) {
    fail(site, "a matrix descriptor whose groups of 8 rows are %u bytes apart, no multiple of the swizzle pattern of %u", matrix.stride,
         pattern);
  }
}

Matrix decode(uint64_t descriptor, bool is_k_major, Site site) {
  const auto field = [&](int first) { return static_cast<uint32_t>(descriptor >> first & 0x3fff) << 4; };
  constexpr uint32_t kSwizzles[] = {0, 128, 64, 32};
  if ((descriptor >> 49 & 7) != 0) fail(site, "a matrix descriptor with a base offset, which is not emulated");
  const uint32_t swizzle = kSwizzles[descriptor >> 62];
  if (swizzle == 0) fail(site, "a matrix descriptor without swizzle, which is not emulated");
  const Matrix matrix = {field(0), field(16), field(32), swizzle};
  check_pattern(matrix, is_k_major, site);
  return matrix;
}

// Returns the byte position of element (row, k), where `row` is in dimension M or N and k is below 16. The
// layouts are the canonical layouts in the PTX ISA. K-major: rows along k have `swizzle` bytes and form
// groups of 8, which are `stride` bytes apart. MN-major: rows along M or N have `swizzle / 2` elements. The
// next elements are `leading` bytes further, and groups of 8 in k are `stride` bytes apart.
uint32_t address_in(const Matrix& matrix, bool is_k_major, int row, int k) {
  const uint32_t r = static_cast<uint32_t>(row), c = static_cast<uint32_t>(k), width = matrix.swizzle / 2;
  const uint32_t offset = is_k_major ? r / 8 * matrix.stride + r % 8 * matrix.swizzle + 2 * c
                                     : r / width * matrix.leading + c / 8 * matrix.stride + c % 8 * matrix.swizzle + r % width * 2;
  return swizzled(matrix.start + offset, matrix.swizzle);
}

float widened(uint16_t bits, Operand type) {
  return type == Operand::kBFloat16 ? __bfloat162float({bits}) : __half2float({bits});
}

constexpr Site kWgmma = {"wgmma", "", 0};

// A view of shared memory for matmuls, which reports an error if a matmul reads a byte that was stored
// without a fence.
struct SharedView {
  const unsigned char* stored = shared_at(0);
  const unsigned char* visible = visible_at(stored);
  size_t bytes = dynamic_shared_bytes();

  float element_at(uint32_t address, Operand type) const {
    uint16_t bits, seen;
    if (address % sizeof bits != 0 || address + sizeof bits > bytes) check_dynamic(stored + address, sizeof bits, sizeof bits, kWgmma);
    std::memcpy(&bits, stored + address, sizeof bits);
    std::memcpy(&seen, visible + address, sizeof seen);
    if (bits != seen) {
      fail(kWgmma, "byte %u of shared memory was stored without fence.proxy.async before the matmul reads it", address);
    }
    return widened(bits, type);
  }
};

void read_operands(PendingMatmul& matmul, int warp) {
  const WarpGroupMatmul& what = matmul.what;
  const SharedView shared;
  matmul.has_read = true;
  matmul.a_values.resize(16 * 16);
  matmul.b_values.resize(size_t{16} * what.columns);
  if (what.a == nullptr) {
    constexpr bool kIsKMajor = true;
    const Matrix a = decode(what.a_matrix, kIsKMajor, kWgmma);
    for (int row = 0; row < 16; ++row) {
      for (int k = 0; k < 16; ++k) {
        matmul.a_values[16 * row + k] =
            shared.element_at(address_in(a, kIsKMajor, 16 * (warp % kWarpsOfGroup) + row, k), what.type);
      }
    }
  } else {
    for (int lane = 0; lane < 32; ++lane) {
      for (int number = 0; number < 4; ++number) {
        for (int half = 0; half < 2; ++half) {
          const int row = lane / 4 + number % 2 * 8, k = lane % 4 * 2 + half + number / 2 * 8;
          matmul.a_values[16 * row + k] = widened(static_cast<uint16_t>(matmul.a[lane][number] >> (16 * half)), what.type);
        }
      }
    }
  }
  const Matrix b = decode(what.b_matrix, !what.transposed_b, kWgmma);
  for (int k = 0; k < 16; ++k) {
    for (int column = 0; column < what.columns; ++column) {
      matmul.b_values[size_t{static_cast<unsigned>(k)} * what.columns + column] =
          shared.element_at(address_in(b, !what.transposed_b, column, k), what.type);
    }
  }
}

// Adds `a * b[i]` to `sums[i]` for i from 0 to `count - 1`. Compiled without sanitizers, which would check
// every value.
[[gnu::no_sanitize("address", "undefined")]]
void add_products(double* sums, double a, const float* b, int count) {
  for (int column = 0; column < count; ++column) sums[column] += a * b[column];
}

// Computes one warp's part of a matmul. Products and their sum are exact. toward_zero rounds the addition to
// the accumulator.
void finish(PendingMatmul& matmul, int warp) {
  if (!matmul.has_read) read_operands(matmul, warp);
  const int columns = matmul.what.columns;
  std::vector<double> sums(columns);
  for (int row = 0; row < 16; ++row) {
    std::fill(sums.begin(), sums.end(), 0.0);
    for (int k = 0; k < 16; ++k) {
      add_products(sums.data(), matmul.a_values[16 * row + k], &matmul.b_values[static_cast<size_t>(k) * columns], columns);
    }
    for (int column = 0; column < columns; ++column) {
      float& d = matmul.d[row % 8 * 4 + column % 8 / 2][column / 8 * 4 + row / 8 * 2 + column % 2];
      d = toward_zero((matmul.what.accumulate ? d : 0.0) + sums[column]);
    }
  }
}

int warp_number() { return thread_number() / 32; }

// --- registers

// The number of registers that the compiler gives each thread of a kernel that calls change_registers later.
// The threads share all registers of the multiprocessor, in units of 8.
constexpr int kRegistersPerMultiprocessor = 65536, kMostRegisters = 256;
int launch_registers() {
  return std::min(kMostRegisters, kRegistersPerMultiprocessor / static_cast<int>(blockDim.size()) / 8 * 8);
}
int registers_of(const Warp& warp) { return warp.registers == 0 ? launch_registers() : warp.registers; }

// Returns a description of the error in the warps' register counts at the end of the block, or null.
const char* wrong_registers() {
  const int num_warps = static_cast<int>(blockDim.size() + 31) / 32;
  int taken = 0;
  for (int number = 0; number < num_warps; ++number) {
    const int mine = work().warps[number].registers;
    taken += registers_of(work().warps[number]);
    if (mine != work().warps[number / kWarpsOfGroup * kWarpsOfGroup].registers) {
      return "the warps of a group have not changed to the same number of registers (setmaxnreg)";
    }
  }
  return taken > num_warps * launch_registers() ? "warp groups take more registers than others give back (setmaxnreg)" : nullptr;
}

struct RegisterChange {
  int count;
  Registers direction;
  Site site;
};

void change_for_warp(Payloads payloads, uint32_t) {
  const RegisterChange& change = *static_cast<const RegisterChange*>(payloads[0]);
  Warp& warp = work().warps[warp_number()];
  const int before = registers_of(warp);
  if (change.direction == Registers::kTake ? change.count < before : change.count > before) {
    fail(change.site, "to %d registers, from %d", change.count, before);
  }
  warp.registers = change.count;
}

// The arguments of a matmul that one lane starts, and its position in the source.
struct Started {
  WarpGroupMatmul matmul;
  Site site;
};

void start_for_warp(Payloads payloads, uint32_t) {
  const Started& first = *static_cast<const Started*>(payloads[0]);
  const int number = warp_number();
  Warp& warp = work().warps[number];
  if (!warp.is_fenced) fail(first.site, "no wgmma.fence since the last commit: registers may still be on their way");
  const WarpGroupMatmul& what = first.matmul;
  const Signature signature = {what.a == nullptr ? what.a_matrix : 0, what.b_matrix, what.columns, what.accumulate};
  std::vector<Signature>& of_group = work().started[number / kWarpsOfGroup];
  if (warp.num_started == of_group.size()) of_group.push_back(signature);
  if (!(of_group[warp.num_started++] == signature)) fail(first.site, "the warps of a group do not start the same matmul");
  PendingMatmul pending = {};
  pending.what = what;
  pending.group = warp.group;
  for (int lane = 0; lane < 32; ++lane) {
    const WarpGroupMatmul& mine = static_cast<const Started*>(payloads[lane])->matmul;
    if (mine.a_matrix != what.a_matrix || mine.b_matrix != what.b_matrix) fail(first.site, "lanes with different descriptors");
    pending.d[lane] = mine.d;
    pending.a[lane] = mine.a;
  }
  warp.matmuls.push_back(std::move(pending));  // first, so that a failure below leaks no memory
  if (happens_now()) read_operands(warp.matmuls.back(), number);
}

}  // namespace

void set_up_barrier(uint64_t* barrier, int arrivals, Site site) {
  check_shared(barrier, sizeof *barrier, sizeof *barrier, site);
  const auto count = static_cast<uint32_t>(arrivals);
  if (arrivals < 1 || count > kCountMask) fail(site, "an mbarrier of %d arrivals", arrivals);
  *barrier = pack({0, count, count, 0});
  work().unpublished.emplace_back(barrier, thread_number());
}

void publish_barriers() {
  fence_async_proxy();
  auto& unpublished = work().unpublished;
  const int self = thread_number();
  unpublished.erase(std::remove_if(unpublished.begin(), unpublished.end(), [&](const auto& one) { return one.second == self; }),
                    unpublished.end());
}

void fence_async_proxy() {
  std::vector<unsigned char>& visible = work().visible;
  const auto* shared = static_cast<const unsigned char*>(dynamic_shared());
  visible.assign(shared, shared + dynamic_shared_bytes());
}

void arrive_at(uint64_t* barrier, int bytes, Site site) {
  BarrierState state = state_of(barrier, site);
  if (state.pending == 0) fail(site, "more arrivals than the %u that the mbarrier was set up for", state.expected);
  --state.pending;
  state.bytes += bytes;
  if (bytes < 0 || state.bytes >= 1 << (kCountBits - 1)) fail(site, "%d bytes are more than an mbarrier counts", bytes);
  settle(barrier, state);
}

void wait_for_phase(uint64_t* barrier, int parity, int slot, Site site) {
  if (parity != 0 && parity != 1) fail(site, "parity %d", parity);
  while (state_of(barrier, site).phase == static_cast<uint32_t>(parity)) wait_for_event({barrier, slot, parity}, site);
}

void copy_box(void* shared, const void* map, const int (&place)[3], uint64_t* barrier, Site site) {
  BoxCopy copy = {static_cast<unsigned char*>(shared), {}, {place[0], place[1], place[2]}, barrier};
  std::memcpy(&copy.from, map, sizeof copy.from);
  if (copy.from.magic != TensorMapFacts::kMagic) fail(site, "this is no tensor map");
  if (reinterpret_cast<uintptr_t>(map) % 64 != 0) fail(site, "a tensor map that is not aligned to 64 bytes");
  state_of(barrier, site);
  // the swizzle pattern repeats every `alignment` bytes, and a matrix descriptor without a base offset
  // requires this alignment
  const size_t alignment = std::max<size_t>(128, 8 * copy.from.swizzle_bytes);
  check_dynamic(shared, bytes_of_box(copy.from), 16, site);
  if (address_of(shared) % alignment != 0) fail(site, "a box at byte %u of shared memory, which is not aligned to %zu", address_of(shared), alignment);
  check_overwritten(shared, bytes_of_box(copy.from), site);
  std::memset(shared, kUnwritten, bytes_of_box(copy.from));
  std::memset(visible_at(shared), kUnwritten, bytes_of_box(copy.from));
  if (happens_now()) return perform(copy);
  work().copies.push_back(copy);
}

void fence_wgmma(Site site) {
  meet_in_warp(kAllLanes, nullptr, [](Payloads, uint32_t) { work().warps[warp_number()].is_fenced = true; }, site);
}

void start_wgmma(const WarpGroupMatmul& matmul, Site site) {
  Started mine = {matmul, site};
  meet_in_warp(kAllLanes, &mine, start_for_warp, site);
}

void commit_wgmma(Site site) {
  const auto commit = [](Payloads, uint32_t) {
    Warp& warp = work().warps[warp_number()];
    ++warp.group;
    warp.is_fenced = false;
  };
  meet_in_warp(kAllLanes, nullptr, commit, site);
}

void wait_for_wgmma(int groups_left, Site site) {
  const auto finish_groups = [](Payloads payloads, uint32_t) {
    const int number = warp_number();
    Warp& warp = work().warps[number];
    const int first_kept = warp.group - *static_cast<const int*>(payloads[0]);
    size_t done = 0;
    while (done < warp.matmuls.size() && warp.matmuls[done].group < first_kept) finish(warp.matmuls[done++], number);
    warp.matmuls.erase(warp.matmuls.begin(), warp.matmuls.begin() + static_cast<std::ptrdiff_t>(done));
  };
  meet_in_warp(kAllLanes, &groups_left, finish_groups, site);
}

void change_registers(int count, Registers direction, Site site) {
  if (count % 8 != 0 || count < 24 || count > 256) fail(site, "setmaxnreg to %d registers", count);
  RegisterChange change = {count, direction, site};
  meet_in_warp(kAllLanes, &change, change_for_warp, site);
}

void select_async_work(int resident) {
  selected_work = static_cast<size_t>(resident);
  if (all_work.size() <= selected_work) all_work.resize(selected_work + 1);
}

void begin_async_work() {
  AsyncWork& all = work();
  all.copies.clear();
  all.unpublished.clear();
  all.visible.clear();
  for (Warp& warp : all.warps) warp = {};
  for (auto& started : all.started) started.clear();
}

bool do_async_work() {
  std::vector<BoxCopy>& copies = work().copies;
  if (copies.empty()) return false;
  const auto next = copies.begin() + static_cast<std::ptrdiff_t>(draw(static_cast<uint32_t>(copies.size())));
  const BoxCopy copy = *next;
  copies.erase(next);
  perform(copy);
  return true;
}

const char* end_async_work() {
  if (!work().copies.empty()) return "a bulk copy was still under way as the block ended";
  for (int number = 0; number < kMaxWarps; ++number) {
    const Warp& warp = work().warps[number];
    if (!warp.matmuls.empty()) return "a wgmma was not waited for";
    if (warp.num_started != work().started[number / kWarpsOfGroup].size()) {
      return "not all warps of a group have started the same number of wgmma";
    }
  }
  return wrong_registers();
}

}  // namespace mtl::emulation
