#include "emulation/ptx_emulation.h"

namespace mtl::emulation {
namespace {

float element(uint16_t bits, __nv_bfloat16) { return __bfloat162float({bits}); }
float element(uint16_t bits, __half) { return __half2float({bits}); }

// Returns one of the two elements in a register (half 0 is in the lower bits).
template <typename T>
float element_of(uint32_t pair, int half) {
  return element(static_cast<uint16_t>(pair >> (16 * half)), T{});
}

struct MmaRegisters {
  float* d;
  const uint32_t* a;
  const uint32_t* b;
};

// Computes the matmul of a and b. Compiled without sanitizers, which would check every element; this is safe
// because the types fix the bounds of all loops.
[[gnu::no_sanitize("address", "undefined")]]
void multiply(const float (&a)[16][16], const float (&b)[16][8], double (&products)[16][8]) {
  for (int row = 0; row < 16; ++row) {
    double sums[8] = {};
    for (int k = 0; k < 16; ++k) {
      for (int column = 0; column < 8; ++column) sums[column] += double{a[row][k]} * b[k][column];
    }
    for (int column = 0; column < 8; ++column) products[row][column] = sums[column];
  }
}

// Computes a matmul when all lanes have arrived. Products and their sum are exact. toward_zero rounds the
// addition to the accumulator.
template <typename T>
void complete_mma(Payloads payloads, uint32_t) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < 32; ++lane) {
    const auto& registers = *static_cast<const MmaRegisters*>(payloads[lane]);
    const int g = lane / 4, t = lane % 4;
    for (int half = 0; half < 2; ++half) {
      for (int number = 0; number < 4; ++number) {
        a[g + number % 2 * 8][2 * t + half + number / 2 * 8] = element_of<T>(registers.a[number], half);
      }
      for (int number = 0; number < 2; ++number) b[2 * t + half + number * 8][g] = element_of<T>(registers.b[number], half);
    }
  }
  double products[16][8];
  multiply(a, b, products);
  for (int lane = 0; lane < 32; ++lane) {
    float* d = static_cast<const MmaRegisters*>(payloads[lane])->d;
    const int g = lane / 4, t = lane % 4;
    for (int number = 0; number < 4; ++number) {
      d[number] = toward_zero(d[number] + products[g + number / 2 * 8][2 * t + number % 2]);
    }
  }
}

struct MatrixRegisters {
  uint32_t* r;
  const uint16_t* row;
};

}  // namespace

template <typename T>
void mma(float* d, const uint32_t* a, const uint32_t* b, Site site) {
  MmaRegisters mine = {d, a, b};
  meet_in_warp(0xffffffffu, &mine, complete_mma<T>, site);
}

template void mma<__nv_bfloat16>(float*, const uint32_t*, const uint32_t*, Site);
template void mma<__half>(float*, const uint32_t*, const uint32_t*, Site);

template <bool transposed>
void load_matrices(uint32_t (&r)[4], const void* row, Site site) {
  check_shared(row, 16, 16, site);
  MatrixRegisters mine = {r, static_cast<const uint16_t*>(row)};
  meet_in_warp(
      0xffffffffu, &mine,
      [](Payloads payloads, uint32_t) {
        const auto registers = [&](int lane) { return *static_cast<const MatrixRegisters*>(payloads[lane]); };
        for (int lane = 0; lane < 32; ++lane) {
          for (int matrix = 0; matrix < 4; ++matrix) {
            const int g = lane / 4, first = lane % 4 * 2;
            const auto at = [&](int i) {  // element i of the lane's row
              return uint32_t{transposed ? registers(8 * matrix + i).row[g] : registers(8 * matrix + g).row[i]};
            };
            registers(lane).r[matrix] = at(first) | at(first + 1) << 16;
          }
        }
      },
      site);
}

template void load_matrices<false>(uint32_t (&)[4], const void*, Site);
template void load_matrices<true>(uint32_t (&)[4], const void*, Site);

}  // namespace mtl::emulation
