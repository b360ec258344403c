import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { probeCuda } from '../internal/index.js';
import { cudaLibraryPath } from './cuda-library-path.js';

const root = mkdtempSync(join(tmpdir(), 'mtl-cuda-package-'));
const kernels = join(root, 'node_modules/@mtl/kernels');
const name = `@mtl/kernels-cuda-${process.platform}-${process.arch}`;
const platformPackage = join(root, 'node_modules', name);

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, text);
}

/**
 * Compiles a mock of the CUDA library, with the same ABI, from a C++ file. The mock finds no driver and no
 * GPU.
 */
function compileStandIn(path: string): void {
  const source = join(root, 'stand_in.cc');
  write(
    source,
    `#include "backends/cuda/cuda_library.h"
static mtl::Status probe(mtl::CudaProbe* found) {
  *found = {};
  found->runtime_version = 13000;
  return {};
}
static const mtl::CudaLibrary library = {mtl::kCudaLibraryAbiVersion, mtl::kBackendAbiVersion, probe, nullptr};
const mtl::CudaLibrary* mtl_cuda_library() { return &library; }
`,
  );
  const native = fileURLToPath(new URL('../../native', import.meta.url));
  const flags = ['-std=gnu++17', '-shared', '-fPIC', '-fvisibility=hidden', '-I', native];
  const args = [...flags, '-I', join(native, 'include'), source, '-o', path];
  const { status, stderr } = spawnSync('c++', args, { encoding: 'utf8' });
  expect(status, stderr).toBe(0);
}

afterAll(() => rmSync(root, { recursive: true }));
beforeEach(() => {
  vi.stubEnv('MTL_CUDA_LIBRARY', undefined);
  rmSync(join(root, 'node_modules'), { recursive: true, force: true });
  write(join(kernels, 'package.json'), JSON.stringify({ name: '@mtl/kernels', version: '1.2.3' }));
});
afterEach(() => vi.unstubAllEnvs());

describe('cudaLibraryPath', () => {
  it('takes the file that is named, then the local build, then the platform package', () => {
    write(join(platformPackage, 'package.json'), JSON.stringify({ name, version: '1.2.3' }));
    write(join(platformPackage, 'libmtl_cuda.so'), '');
    expect(cudaLibraryPath(kernels)).toBe(join(platformPackage, 'libmtl_cuda.so'));
    const local = join(kernels, 'build/Cuda/libmtl_cuda.so');
    write(local, '');
    expect(cudaLibraryPath(kernels)).toBe(local);
    const named = join(root, 'named.so');
    write(named, '');
    vi.stubEnv('MTL_CUDA_LIBRARY', named);
    expect(cudaLibraryPath(kernels)).toBe(named);
  });

  it('names the package to install where there is no library', () => {
    expect(() => cudaLibraryPath(kernels)).toThrow(
      expect.objectContaining({
        code: 'MTL_CUDA_LIBRARY',
        message: `CUDA library not found: ${join(kernels, 'build/Cuda/libmtl_cuda.so')} or ${name} (not installed)`,
        remedy: expect.stringMatching(
          `^npm install ${name}@1\\.2\\.3; in a checkout npm run dev -- build:cuda`,
        ),
        exitCode: 2,
      }),
    );
  });

  it('names no package to install where none is published: in a checkout', () => {
    write(join(kernels, 'package.json'), JSON.stringify({ name: '@mtl/kernels', version: '0.0.0' }));
    expect(() => cudaLibraryPath(kernels)).toThrow(
      expect.objectContaining({
        remedy: expect.stringMatching(
          `^in the checkout npm run dev -- build:cuda .*; ${name} is not published yet$`,
        ),
      }),
    );
  });

  it('refuses a platform package of another version, and one that holds no library', () => {
    write(join(platformPackage, 'package.json'), JSON.stringify({ name, version: '1.2.2' }));
    expect(() => cudaLibraryPath(kernels)).toThrow(`${name} (version 1.2.2, expected 1.2.3)`);
    write(join(platformPackage, 'package.json'), JSON.stringify({ name, version: '1.2.3' }));
    expect(() => cudaLibraryPath(kernels)).toThrow(/libmtl_cuda\.so \(not built\)$/);
  });

  it('has the name and the file of the package in platforms/', () => {
    const folder = new URL('../../../../platforms/kernels-cuda-linux-x64/', import.meta.url);
    const manifest = JSON.parse(readFileSync(new URL('package.json', folder), 'utf8'));
    expect(manifest.files).toContain('libmtl_cuda.so');
    expect(manifest.name).toBe('@mtl/kernels-cuda-linux-x64');
  });
});

it('a library of the platform package loads without a GPU', () => {
  write(join(platformPackage, 'package.json'), JSON.stringify({ name, version: '1.2.3' }));
  compileStandIn(join(platformPackage, 'libmtl_cuda.so'));
  const path = cudaLibraryPath(kernels);
  vi.stubEnv('MTL_CUDA_LIBRARY', path);
  expect(probeCuda()).toEqual({
    libraryPath: path,
    driverVersion: undefined,
    runtimeVersion: '13.0',
    devices: [],
  });
});
