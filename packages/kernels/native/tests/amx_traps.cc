#include "tests/amx_traps.h"

#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cstring>

namespace mtl::tests {
namespace {

#if defined(__x86_64__)

// Encodings and effects: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, LDTILECFG,
// TDPBF16PS, TILELOADD, TILERELEASE, TILESTORED and TILEZERO.
constexpr int kTiles = 8, kMostRows = 16, kMostBytes = 64;

struct Tiles {
  bool configured;
  int rows[kTiles], bytes_of_row[kTiles];
  unsigned char data[kTiles][kMostRows][kMostBytes];
};
thread_local Tiles tiles;
std::atomic<int64_t> num_trapped{0};

// One instruction in the encoding that AMX has: three bytes of VEX, the opcode, ModRM, SIB and a
// displacement.
struct Instruction {
  int prefix, opcode, mode, reg, memory, operand;  // prefix: 0 none, 1 66, 2 F3, 3 F2; operand: VEX.vvvv
  const unsigned char* address;                    // of memory, without the index of TILELOADD and TILESTORED
  int64_t stride;                                  // that index, scaled
  int length;
};

int64_t value_of(const ucontext_t& context, int number) {
  static const int kRegisters[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                   REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[kRegisters[number]];
}

bool decode(const ucontext_t& context, Instruction* result) {
  const auto* code = reinterpret_cast<const unsigned char*>(context.uc_mcontext.gregs[REG_RIP]);
  // VEX of three bytes, map 0F38, W0, 128 bits; R, X, B and vvvv are inverted
  if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || (code[2] & 0x84) != 0) return false;
  const int extra_index = (code[1] & 0x40) != 0 ? 0 : 8, extra_base = (code[1] & 0x20) != 0 ? 0 : 8;
  *result = {code[2] & 3, code[3], code[4] >> 6, code[4] >> 3 & 7, code[4] & 7, ~(code[2] >> 3) & 15, nullptr, 0, 5};
  if (result->mode == 3) return true;
  int base = result->memory + extra_base;
  bool has_base = true;
  if (result->memory == 4) {
    const int sib = code[result->length++], index = (sib >> 3 & 7) + extra_index;
    base = (sib & 7) + extra_base;
    has_base = (sib & 7) != 5 || result->mode != 0;
    if (index != 4) result->stride = value_of(context, index) << (sib >> 6);
  } else if (result->memory == 5 && result->mode == 0) {
    has_base = false;  // relative to the next instruction
  }
  int64_t displacement = 0;
  if (result->mode == 1) {
    displacement = static_cast<signed char>(code[result->length++]);
  } else if (result->mode == 2 || !has_base) {
    int32_t wide;
    std::memcpy(&wide, code + result->length, sizeof wide);
    result->length += 4;
    displacement = wide;
  }
  const bool is_relative = result->memory == 5 && result->mode == 0;
  const int64_t from = is_relative ? context.uc_mcontext.gregs[REG_RIP] + result->length
                                   : has_base ? value_of(context, base) : 0;
  result->address = reinterpret_cast<const unsigned char*>(from + displacement);
  return true;
}

// Loads a tile configuration: palette 1, no start row, reserved bytes zero, up to 16 rows of up to 64 bytes
// in whole words. Returns false for any other one.
bool configure(const unsigned char* memory) {
  if (memory[0] != 1 || memory[1] != 0) return false;
  for (int i = 2; i < 16; ++i) {
    if (memory[i] != 0) return false;
  }
  tiles = {};
  for (int i = 0; i < 16; ++i) {
    uint16_t bytes;
    std::memcpy(&bytes, memory + 16 + 2 * i, sizeof bytes);
    const int rows = memory[48 + i];
    if (bytes > kMostBytes || bytes % 4 != 0 || rows > kMostRows || (bytes == 0) != (rows == 0)) return false;
    if (i >= kTiles) {
      if (rows != 0) return false;
      continue;
    }
    tiles.rows[i] = rows;
    tiles.bytes_of_row[i] = bytes;
  }
  return tiles.configured = true;
}

bool is_usable(int tile) { return tiles.configured && tile < kTiles && tiles.rows[tile] > 0; }

float bfloat16_of(uint32_t word, int half) {
  const uint32_t bits = half == 0 ? word << 16 : word & 0xffff0000u;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// Computes sums[m, n] += left[m, 2 k + i] right[k, 2 n + i].
bool multiply(int sums, int left, int right) {
  if (!is_usable(sums) || !is_usable(left) || !is_usable(right)) return false;
  if (sums == left || sums == right || left == right) return false;
  if (tiles.rows[sums] != tiles.rows[left] || tiles.bytes_of_row[sums] != tiles.bytes_of_row[right]) return false;
  if (tiles.bytes_of_row[left] / 4 != tiles.rows[right]) return false;
  for (int m = 0; m < tiles.rows[sums]; ++m) {
    for (int n = 0; n < tiles.bytes_of_row[sums] / 4; ++n) {
      float sum;
      std::memcpy(&sum, tiles.data[sums][m] + 4 * n, sizeof sum);
      for (int k = 0; k < tiles.rows[right]; ++k) {
        uint32_t a, b;
        std::memcpy(&a, tiles.data[left][m] + 4 * k, sizeof a);
        std::memcpy(&b, tiles.data[right][k] + 4 * n, sizeof b);
        for (int half = 0; half < 2; ++half) sum += bfloat16_of(a, half) * bfloat16_of(b, half);
      }
      std::memcpy(tiles.data[sums][m] + 4 * n, &sum, sizeof sum);
    }
  }
  return true;
}

bool execute(const Instruction& one) {
  const bool in_memory = one.mode != 3;
  if (one.opcode == 0x49 && one.prefix == 0 && in_memory && one.reg == 0) return configure(one.address);
  if (one.opcode == 0x49 && one.prefix == 0 && !in_memory && one.reg == 0 && one.memory == 0) {
    tiles = {};
    return true;
  }
  if (!is_usable(one.reg)) return false;
  const int rows = tiles.rows[one.reg];
  const auto bytes = static_cast<size_t>(tiles.bytes_of_row[one.reg]);
  if (one.opcode == 0x49 && one.prefix == 3 && !in_memory && one.memory == 0) {
    std::memset(tiles.data[one.reg], 0, sizeof tiles.data[one.reg]);
    return true;
  }
  if (one.opcode == 0x4b && (one.prefix == 3 || one.prefix == 2) && in_memory && one.memory == 4) {
    for (int row = 0; row < rows; ++row) {
      auto* const memory = const_cast<unsigned char*>(one.address + row * one.stride);
      if (one.prefix == 3) std::memcpy(tiles.data[one.reg][row], memory, bytes);
      if (one.prefix == 2) std::memcpy(memory, tiles.data[one.reg][row], bytes);
    }
    return true;
  }
  return one.opcode == 0x5c && one.prefix == 2 && !in_memory && multiply(one.reg, one.memory, one.operand);
}

void handle_illegal_instruction(int, siginfo_t*, void* context_of_signal) {
  auto* const context = static_cast<ucontext_t*>(context_of_signal);
  Instruction instruction;
  if (!decode(*context, &instruction) || !execute(instruction)) {
    signal(SIGILL, SIG_DFL);  // the instruction is executed again
    return;
  }
  ++num_trapped;
  context->uc_mcontext.gregs[REG_RIP] += instruction.length;
}

#endif

}  // namespace

void trap_amx_instructions() {
#if defined(__x86_64__)
  if (machine_has_amx()) return;
  struct sigaction action = {};
  action.sa_sigaction = handle_illegal_instruction;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGILL, &action, nullptr);
#endif
}

int64_t num_trapped_amx_instructions() {
#if defined(__x86_64__)
  return num_trapped;
#else
  return 0;
#endif
}

}  // namespace mtl::tests
