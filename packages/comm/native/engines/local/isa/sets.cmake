# The instruction sets that loops over elements are compiled for, the preferred one first: the first set that a machine
# supports computes there. The last one runs everywhere. A set is isa/<name>.h and an entry here.
#
#   instruction_set(name [PROCESSOR regex] [NEEDS features] [OPTIONS options])
#
#   PROCESSOR   CMAKE_SYSTEM_PROCESSOR of the machines that may have it; by default all
#   NEEDS       features of the processor, as __builtin_cpu_supports names them
#   OPTIONS     of the compiler

instruction_set(avx512 PROCESSOR x86_64|AMD64
                NEEDS avx2 fma f16c avx512f avx512bw avx512vl avx512dq
                OPTIONS -mavx512f -mavx512bw -mavx512vl -mavx512dq -mfma -mf16c -mprefer-vector-width=512)

instruction_set(avx2 PROCESSOR x86_64|AMD64
                NEEDS avx2 fma f16c
                OPTIONS -mavx2 -mfma -mf16c)

instruction_set(plain)
