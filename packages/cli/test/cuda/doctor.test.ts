import { tmpdir } from 'node:os';
import { findGpu } from '@mtl/kernels/internal';
import { describe, expect, it } from 'vitest';
import { spawnMtl } from '../support/spawn-mtl.js';

const { title, problem, device } = findGpu();

describe.skipIf(problem !== undefined)(`mtl doctor where there is a GPU (${title})`, () => {
  it('shows driver, devices and libraries, with versions and paths', async () => {
    const { status, stdout } = await spawnMtl(['doctor', '--json'], { cwd: tmpdir() });
    expect(status).toBe(0);
    const findings = JSON.parse(stdout) as { readonly name: string; readonly value: string }[];
    const said = (wanted: string) => findings.find(({ name }) => name === wanted)?.value;
    expect(said('CUDA library')).toMatch(/^\/.*\.so, built with CUDA \d+\.\d+$/);
    expect(said('NVIDIA driver')).toMatch(/^serves CUDA \d+\.\d+$/);
    const { name, computeCapability, numMultiprocessors } = device!;
    const gpu = said('GPU 0');
    expect(gpu?.startsWith(`${name}, compute capability ${computeCapability}, `)).toBe(true);
    expect(gpu).toMatch(new RegExp(`[\\d.]+ [GM]iB, ${numMultiprocessors} multiprocessors$`));
    expect(said('cuBLASLt')).toMatch(/^\d+\.\d+\.\d+, \/.*libcublasLt\.so\.\d+/);
    expect(said('ranks communicate over')).toContain('--device cuda: ');
  });
});
