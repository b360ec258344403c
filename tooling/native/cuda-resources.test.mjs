import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { testFolder } from '../processes/test-folder.mjs';

const script = fileURLToPath(new URL('cuda-resources.mjs', import.meta.url));
const folder = testFolder('cuda-resources');
const hasCompiler = spawnSync(process.env.NVCC ?? 'nvcc', ['--version']).status === 0;

// each thread needs 64 values at the same time, but blocks have 1024 threads and two blocks must fit on a
// multiprocessor, which leaves 32 registers for each thread
const kernel = (comment) => `${comment}
#include "backends/cuda/instructions/ptx.h"
__global__ void __launch_bounds__(1024, 2) crowded(float* values) {
  float kept[64];
  for (int i = 0; i < 64; ++i) kept[i] = values[i * 1024 + threadIdx.x];
  __syncthreads();
  for (int i = 0; i < 64; ++i) values[i * 1024 + threadIdx.x] = kept[i] * kept[63 - i];
}
__global__ void multiply(float* values) {
  float d[4] = {};
  for (int i = 0; i < 3; ++i) mtl::cuda::mma(d, {threadIdx.x, 1, 2, 3}, {4, threadIdx.x}, __half{});
  values[threadIdx.x] = d[0] + d[1] + d[2] + d[3];
}
`;
// the index is known only at run time, so the compiler keeps the array in memory
const choosing = `
__global__ void choose(float* values, int which) {
  float kept[32] = {};
  for (int i = 0; i < which; ++i) kept[i * which % 32] += values[i] + kept[i % 32];
  values[threadIdx.x] = kept[which % 32];
}
`;

function report(source) {
  const file = join(folder.path, 'crowded.cu');
  folder.write('crowded.cu', source);
  const { status, stdout } = spawnSync(process.execPath, [script, '--architectures', '80', file], {
    encoding: 'utf8',
  });
  return { status, lines: stdout.split('\n') };
}

describe('check-resources', () => {
  it('finds what it looks for in reports of the compiler', () => {
    const check = '../../packages/kernels/native/backends/cuda/check-resources.mjs';
    const args = [fileURLToPath(new URL(check, import.meta.url)), '--self-test'];
    expect(spawnSync(process.execPath, args).status).toBe(0);
  });
});

describe.skipIf(!hasCompiler)('cuda-resources (needs nvcc)', () => {
  afterAll(folder.remove);

  it('ends with 1 where a kernel spills or has an array on the stack, and counts its matrix instructions', () => {
    const { status, lines } = report(kernel('') + choosing);
    expect(status).toBe(1);
    expect(lines.find((line) => line.includes('   crowded'))).toMatch(/SPILLS$/);
    expect(lines.find((line) => line.includes('   choose'))).toMatch(/choose {2}STACK$/);
    expect(lines.find((line) => line.endsWith('   multiply'))).toMatch(/^ +\d+ +0 +0 +3 /);
  }, 120_000);

  it('counts in a linked library, for each architecture', () => {
    const [file, library] = [join(folder.path, 'linked.cu'), join(folder.path, 'linked.so')];
    folder.write('linked.cu', kernel(''));
    const sources = fileURLToPath(new URL('../../packages/kernels/native', import.meta.url));
    const architectures = ['80', '90a'].flatMap((one) => ['-gencode', `arch=compute_${one},code=sm_${one}`]);
    const options = [
      '-std=c++17',
      '-shared',
      '-Xcompiler=-fPIC',
      '-I',
      sources,
      '-I',
      join(sources, 'include'),
    ];
    const nvcc = spawnSync(process.env.NVCC ?? 'nvcc', [...options, ...architectures, '-o', library, file]);
    expect(nvcc.status).toBe(0);
    const { stdout, status } = spawnSync(process.execPath, [script, '--built', library], {
      encoding: 'utf8',
    });
    expect(status).toBe(0);
    for (const architecture of [80, 90]) {
      expect(stdout).toMatch(
        new RegExp(`^sm_${architecture} \\{"kernels":2,"withMatrixInstructions":1,"HMMA":3,`, 'm'),
      );
    }
    expect(spawnSync(process.execPath, [script, '--built', file]).status).toBe(1);
  }, 240_000);

  it('accepts what the source allows', () => {
    expect(report(kernel('// spills allowed: 4096')).status).toBe(0);
  }, 120_000);
});
