# The instruction sets that CPU kernels are compiled for, the preferred one first: the first set that a machine
# supports computes there. CMake compiles by this list, instruction_sets.cc chooses by it, and
# tooling/native/instruction-sets.mjs finds the set of the machine that compiles.
#
#   instruction_set(name [PROCESSOR regex] [EXTENDS set] [NEEDS features] [PERMISSION function] [OPTIONS options]
#                   [KERNELS files])
#
#   name        isa/<name>.h has its vectors
#   PROCESSOR   CMAKE_SYSTEM_PROCESSOR of the machines that may have it; by default all
#   EXTENDS     a later set of this list: its features and options are added, and its kernels compute what this set
#               has no kernel for
#   NEEDS       features of the processor, as __builtin_cpu_supports names them
#   PERMISSION  a function of platforms/platform.h: whether the operating system lets the process use the set
#   OPTIONS     of the compiler
#   KERNELS     the files of simd/ that are compiled for it, without .cc; by default all

instruction_set(amx PROCESSOR x86_64|AMD64 EXTENDS avx512
                NEEDS amx-tile amx-bf16
                PERMISSION may_use_tiles
                KERNELS attention_backward attention_forward facts grouped_matmul matmul)

instruction_set(avx512 PROCESSOR x86_64|AMD64
                NEEDS avx512f avx512bw avx512vl avx512dq avx512bf16
                OPTIONS -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512bf16 -mfma -mf16c -mprefer-vector-width=512)

instruction_set(avx2 PROCESSOR x86_64|AMD64
                NEEDS avx2 fma
                OPTIONS -mavx2 -mfma -mf16c)

instruction_set(sse4 PROCESSOR x86_64|AMD64
                NEEDS sse4.1
                OPTIONS -msse4.1)

# LLVM 19 fuses no product and sum of its own accord: only kernels that call add_product profit
instruction_set(relaxed_simd PROCESSOR wasm32_relaxed EXTENDS simd128
                OPTIONS -mrelaxed-simd
                KERNELS attention_backward attention_forward facts grouped_matmul matmul)

instruction_set(simd128 PROCESSOR wasm32|wasm32_relaxed
                OPTIONS -msimd128)

instruction_set(plain)
