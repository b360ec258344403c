import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { loadWebAssembly } from './load-webassembly.js';

let root: string;
let directory: string;

function write(path: string, text: string): string {
  const file = join(root, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'load-webassembly-'));
  directory = join(root, 'node_modules/@example/kernels');
  write('node_modules/@example/kernels/package.json', '{"name":"@example/kernels","version":"1.2.3"}');
});
afterEach(() => {
  vi.unstubAllGlobals();
  rmSync(root, { recursive: true, force: true });
});

/** Writes the package. Its JavaScript does not load an addon, but returns the path that it has received. */
function writePackage({ version = '1.2.3' } = {}): string {
  const folder = 'node_modules/@example/kernels-wasm32';
  write(`${folder}/package.json`, JSON.stringify({ version, main: 'load.cjs' }));
  write(`${folder}/load.cjs`, 'exports.loadKernels = (path) => ({ path });');
  return write(`${folder}/mtl_kernels.wasm`, '');
}

describe('loadWebAssembly', () => {
  it('loads the local build before the module of the package', () => {
    const published = writePackage();
    expect(loadWebAssembly({ directory })).toEqual({
      addon: { path: published },
      path: published,
      isWebAssembly: true,
    });
    const local = write('node_modules/@example/kernels/build/Wasm/mtl_kernels.wasm', '');
    expect(loadWebAssembly({ directory })).toMatchObject({ path: local, addon: { path: local } });
  });

  it('takes the module that is asked for, and one without threads where there is no shared memory', () => {
    const shared = writePackage();
    const [single, relaxed] = ['single', 'relaxed'].map((kind) =>
      write(`node_modules/@example/kernels-wasm32/mtl_kernels_${kind}.wasm`, ''),
    );
    expect(loadWebAssembly({ directory, choice: 'wasm-single' })).toMatchObject({ path: single });
    expect(loadWebAssembly({ directory, choice: 'wasm-relaxed' })).toMatchObject({ path: relaxed });
    vi.stubGlobal('SharedArrayBuffer', undefined);
    expect(loadWebAssembly({ directory })).toMatchObject({ path: single });
    expect(loadWebAssembly({ directory, choice: 'wasm' })).toMatchObject({ path: shared });
  });

  it('tells what to do where Node.js lacks relaxed SIMD', () => {
    const folder = dirname(writePackage());
    writeFileSync(join(folder, 'mtl_kernels_relaxed.wasm'), 'text');
    writeFileSync(
      join(folder, 'load.cjs'),
      'exports.loadKernels = (path) => new WebAssembly.Module(require("fs").readFileSync(path));',
    );
    expect(loadWebAssembly({ directory, choice: 'wasm-relaxed' })).toEqual({
      failure: expect.stringMatching(/^Node\.js .* does not compile .*, which has relaxed SIMD: /),
      remedy: 'take Node.js 22 or newer, or MTL_KERNELS=wasm, which has no relaxed SIMD',
    });
  });

  it('tells why it cannot', () => {
    expect(loadWebAssembly({ directory })).toEqual({
      failure: '@example/kernels-wasm32: not installed',
      remedy: expect.stringContaining('--omit=optional'),
    });
    writePackage({ version: '1.2.2' });
    expect(loadWebAssembly({ directory })).toEqual({
      failure: '@example/kernels-wasm32: version 1.2.2, expected 1.2.3 as @example/kernels has',
      remedy: 'install @example/kernels-wasm32@1.2.3',
    });
    rmSync(writePackage());
    expect(loadWebAssembly({ directory })).toMatchObject({
      failure: expect.stringMatching(/Wasm\/mtl_kernels\.wasm and .*not built$/),
      remedy: expect.stringContaining('build:wasm'),
    });
  });
});
