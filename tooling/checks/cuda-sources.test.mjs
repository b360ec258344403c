import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';

// The CUDA library contains some of the sources that the addon has, too, from a list in sources.cmake. It is
// linked only by nvcc's build and by the emulation, which CI does not build.

const kernels = fileURLToPath(new URL('../../packages/kernels/', import.meta.url));
const list = readFileSync(join(kernels, 'native/backends/cuda/sources.cmake'), 'utf8');
const shared = [...list.matchAll(/native\/(?:core|ops|backends\/cpu|platforms)\/\S+\.cc/g)].map(
  ([path]) => path,
);
const sources = [
  ...shared,
  ...readdirSync(join(kernels, 'native/backends/cuda'), { recursive: true })
    .filter((file) => /\.(?:cc|cu)$/.test(file) && !file.startsWith('loader/'))
    .map((file) => `native/backends/cuda/${file}`),
];

/** Sources of core/ without which the library links: it uses only the types of their headers. */
const notNeeded = ['native/core/backend.cc', 'native/core/caching_allocator.cc'];

/** Returns the sources of core/ whose headers are included by `files`, directly or through other headers. */
function sourcesOfIncludedHeaders(files) {
  const seen = new Set();
  const waiting = [...files];
  while (waiting.length > 0) {
    const file = waiting.pop();
    if (seen.has(file) || !existsSync(join(kernels, file))) continue;
    seen.add(file);
    const text = readFileSync(join(kernels, file), 'utf8');
    for (const [, header] of text.matchAll(/#include "([^"]+)"/g)) waiting.push(`native/${header}`);
  }
  return [...seen]
    .filter((file) => file.startsWith('native/core/') && file.endsWith('.h'))
    .map((file) => file.replace(/h$/, 'cc'))
    .filter((file) => existsSync(join(kernels, file)));
}

it('the CUDA library has each source of core/ whose header its sources include', () => {
  const included = sourcesOfIncludedHeaders(sources);
  expect(included).toContain('native/core/device_memory.cc');
  expect(included.filter((file) => !shared.includes(file) && !notNeeded.includes(file))).toEqual([]);
});
