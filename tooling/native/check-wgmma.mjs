#!/usr/bin/env node
/**
 * Checks the matmul instructions of warp groups in PTX (`wgmma.mma_async`), because their operands are
 * numbered by hand in the sources of @mtl/kernels (native/backends/cuda/instructions/hopper.h). The form
 * m64nNk16 must have N / 2 different accumulators. Its left operand is four registers or a descriptor. With a
 * descriptor, it has four immediates (scales of A and B, transposition flags of A and B); with registers, it
 * has three. Needs nvcc, but no GPU.
 *   node check-wgmma.mjs [FILE.cu ...]      checks every form in hopper.h, or the instructions in the files
 * The exit status is 1 if an instruction is wrong, or if there are no such instructions.
 */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';

const sources = fileURLToPath(new URL('../../packages/kernels/native', import.meta.url));
const header = join(sources, 'backends/cuda/instructions/hopper.h');

const registersIn = (list) => list.split(',').map((register) => register.trim());

/** Returns the problem of one matmul instruction; undefined if it is correct. */
function findProblem([text, columns, types, accumulators, left, immediates]) {
  const sums = registersIn(accumulators);
  const expected = Number(columns) / 2;
  if (new Set(sums).size !== sums.length) return `an accumulator appears twice: ${text}`;
  if (sums.length !== expected) return `${sums.length} accumulators, expected ${expected}: ${text}`;
  if (!/^\.(bf16\.bf16|f16\.f16)$/.test(types)) return `operands of types ${types}: ${text}`;
  const isInRegisters = left.startsWith('{');
  const numRegisters = isInRegisters ? new Set(registersIn(left.slice(1, -1))).size : 0;
  if (isInRegisters && numRegisters !== 4) return `${numRegisters} registers of A, expected 4: ${text}`;
  const count = registersIn(immediates).length;
  const wanted = isInRegisters ? 3 : 4;
  if (count !== wanted) return `${count} immediates, expected ${wanted}: ${text}`;
  // the expected immediates: A and B both in row order, or B in column order
  const expectedImmediates = isInRegisters ? '1,1,1' : '1,1,0,0';
  return registersIn(immediates).join(',') === expectedImmediates
    ? undefined
    : `immediates ${immediates}, expected ${expectedImmediates}: ${text}`;
}

/** Returns the number of matmul instructions in the string `ptx`, and the problems that they have. */
export function checkWgmma(ptx) {
  const pattern =
    /wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32([.\w]*)\s*\{([^}]*)\},\s*(\{[^}]*\}|%\w+),\s*%\w+,\s*\w+,\s*([^;]*);/g;
  const found = [...ptx.matchAll(pattern)];
  const problems = found.map(findProblem).filter((problem) => problem !== undefined);
  const numWritten = ptx.split('wgmma.mma_async').length - 1;
  if (numWritten !== found.length) problems.push(`${numWritten - found.length} matmuls have another form`);
  return { count: found.length, problems };
}

/** Returns the source of a kernel that uses each form of the matmul instruction in hopper.h once. */
export function kernelOfAllForms() {
  const columns = [...readFileSync(header, 'utf8').matchAll(/^MTL_WGMMAS\((\d+),/gm)].map(([, one]) => one);
  const uses = columns.flatMap((count) =>
    ['__nv_bfloat16', '__half'].map((type) => `multiply<${type}, ${count}>(values, a, b);`),
  );
  return `#include "backends/cuda/instructions/hopper.h"
using namespace mtl::cuda;
template <typename T, int kColumns>
MTL_PTX void multiply(float* values, uint64_t a, uint64_t b) {
  float d[kColumns / 8][4] = {};
  const uint32_t registers[4] = {threadIdx.x, blockIdx.x, blockDim.x, gridDim.x};
  WarpGroupMatmul<T, kColumns>::by_rows(d, a, b, values[0] > 0);
  WarpGroupMatmul<T, kColumns>::by_columns(d, registers, b, values[1] > 0);
  for (int n = 0; n < kColumns / 8; ++n)
    for (int i = 0; i < 4; ++i) values[n * 4 + i] += d[n][i];
}
__global__ void all_forms(float* values, uint64_t a, uint64_t b, uint64_t* barrier) {
#if MTL_HOPPER_CODE
  wait_for_phase(barrier, 1, 2);
  ${uses.join('\n  ')}
#endif
}
`;
}

/**
 * Returns the PTX that nvcc makes for Hopper from the source file `file`. If the file does not compile,
 * prints the compiler's output and returns undefined.
 */
export function compilePtx(file, definitions = []) {
  const folder = mkdtempSync(join(tmpdir(), 'check-wgmma-'));
  try {
    const output = join(folder, 'out.ptx');
    const includes = ['-I', sources, '-I', join(sources, 'include')];
    const nvcc = spawnSync(
      process.env.NVCC ?? 'nvcc',
      ['-std=c++17', '-arch=compute_90a', ...definitions, ...includes, '-ptx', '-o', output, file],
      { encoding: 'utf8' },
    );
    if (nvcc.status === 0) return readFileSync(output, 'utf8');
    console.error(
      nvcc.error === undefined
        ? nvcc.stderr
        : 'error[MTL_NATIVE_BUILD]: nvcc was not found\n  remedy: put it on PATH or name it in NVCC',
    );
    return undefined;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function main(files) {
  const folder = mkdtempSync(join(tmpdir(), 'check-wgmma-'));
  let status = 0;
  try {
    const all = join(folder, 'all_forms.cu');
    writeFileSync(all, kernelOfAllForms());
    for (const file of files.length > 0 ? files.map((one) => resolve(one)) : [all]) {
      const ptx = compilePtx(file);
      if (ptx === undefined) return 2;
      const { count, problems } = checkWgmma(ptx);
      for (const problem of problems) console.log(problem);
      console.log(`${file}: ${count} matmuls of warp groups, ${problems.length} wrong`);
      if (problems.length > 0 || count === 0) status = 1;
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
  return status;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) process.exitCode = main(process.argv.slice(2));
