import { describe, expect, it } from 'vitest';
import { platformProblem } from './platform-problem.mjs';

describe('platformProblem', () => {
  it('has nothing against Linux on x86-64 with glibc, which this machine is', () => {
    expect(platformProblem({ platform: 'linux', arch: 'x64', glibc: '2.36' })).toBeUndefined();
    expect(platformProblem()).toBeUndefined();
  });

  it('has nothing against arm64 with glibc, where the plain kernels are compiled', () => {
    expect(platformProblem({ platform: 'linux', arch: 'arm64', glibc: '2.36' })).toBeUndefined();
  });

  it.each([
    ['darwin', 'arm64', undefined, 'unsupported platform: darwin arm64'],
    ['win32', 'x64', undefined, 'unsupported platform: win32 x64'],
    ['linux', 'arm64', undefined, 'unsupported platform: linux arm64 with musl'],
    ['linux', 'riscv64', '2.36', 'unsupported platform: linux riscv64'],
    ['linux', 'x64', undefined, 'unsupported platform: linux x64 with musl'],
  ])('refuses %s %s (glibc %s) with a container that works there', (platform, arch, glibc, message) => {
    const problem = platformProblem({ platform, arch, glibc });
    expect(problem.message).toBe(message);
    expect(problem.remedy).toContain('docker run --rm -it --platform linux/amd64');
  });
});
