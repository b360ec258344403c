import { tmpdir } from 'node:os';
import { describe, expect, it } from 'vitest';
import { spawnMtl } from './support/spawn-mtl.js';

const cwd = tmpdir();

interface Finding {
  readonly name: string;
  readonly status: string;
  readonly value: string;
  readonly remedy?: string;
}

describe('mtl doctor', () => {
  it('shows what is there', async () => {
    const { status, stdout, stderr } = await spawnMtl(['doctor'], { cwd });
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
    expect(stdout).toMatch(new RegExp(`^ok +node +${process.versions.node.replaceAll('.', '\\.')}$`, 'm'));
    expect(stdout).toMatch(/^ok +kernels +native, .*\.node$/m);
    expect(stdout).toMatch(/^ok +oneDNN +\d+\.\d+/m);
    expect(stdout).toMatch(/^ok +matmuls +by our kernels or oneDNN/m);
    expect(stdout).toMatch(/^ok +disk +.* free in /m);
  });

  it('prints JSON', async () => {
    const { status, stdout } = await spawnMtl(['doctor', '--json'], { cwd });
    expect(status).toBe(0);
    const names = (JSON.parse(stdout) as Finding[]).map(({ name }) => name);
    // what follows the CUDA library depends on whether one is built, and on the machine
    const isOfMachine = (name: string): boolean => /^(NVIDIA driver|GPU.*|cuBLASLt)$/.test(name);
    expect(names.filter((name) => !isOfMachine(name))).toEqual([
      ...[
        'node',
        'platform',
        'processor',
        'memory',
        'kernels',
        'instruction set',
        'oneDNN',
        'matmuls',
        'threads',
      ],
      ...['CUDA library', 'NCCL', 'ranks communicate over', 'C++ compiler', 'CMake', 'Ninja', 'nvcc', 'disk'],
    ]);
  });

  it('exits with 1 and prints what to do when the kernels cannot be loaded', async () => {
    const { status, stdout, stderr } = await spawnMtl(['doctor', '--json'], {
      cwd,
      env: { MTL_KERNELS_ADDON: '/nowhere/mtl_kernels.node' },
    });
    expect(status).toBe(1);
    const found = (JSON.parse(stdout) as Finding[]).find(({ name }) => name === 'kernels');
    expect(found).toMatchObject({
      status: 'missing',
      remedy: expect.stringContaining('npm run build:native'),
    });
    expect(stderr).toContain('error[MTL_DOCTOR]');
    expect(stderr).toContain('npm run build:native');
  });

  it('finds no compilers where there are none, and needs none', async () => {
    const { status, stdout } = await spawnMtl(['doctor', '--json'], { cwd, env: { PATH: '/nowhere' } });
    expect(status).toBe(0);
    const compiler = (JSON.parse(stdout) as Finding[]).find(({ name }) => name === 'C++ compiler');
    expect(compiler).toMatchObject({ status: 'note', value: 'not found' });
  });
});
