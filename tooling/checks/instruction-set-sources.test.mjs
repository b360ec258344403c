import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { parseInstructionSets } from '../native/instruction-sets.mjs';

// The primitives of each instruction set are in a single file. Kernels use them only through
// backends/cpu/isa/isa.h, and the loops in @mtl/comm use them only through their own folder isa/

const native = (path) => fileURLToPath(new URL(`../../packages/${path}/`, import.meta.url));
const cpu = native('kernels/native/backends/cpu');
const local = native('comm/native/engines/local');

/** Macros, headers, types and functions with which source code refers to an instruction set. */
const names =
  /MTL_ISA_LEVEL|__(?:AVX|AMX|SSE|FMA|F16C|ARM|aarch64|wasm)|\w+mmintrin\.h|arm_\w+\.h|\b_mm\w*_|\b__m\d+|__asm__/;

const linesWith = (text) => text.split('\n').filter((line) => names.test(line));

it('finds what names an instruction set', () => {
  for (const line of [
    '#if MTL_ISA_LEVEL == 2',
    '#ifdef __AVX512BF16__',
    '#include <immintrin.h>',
    '#include <arm_neon.h>',
    'return (VFloat)_mm256_max_ps((__m256)a, (__m256)b);',
    '__asm__ volatile("tilerelease");',
  ])
    expect(linesWith(`// a kernel\n${line}\n`)).toEqual([line]);
});

it.each([
  ['kernels', cpu, 40],
  ['loops of @mtl/comm', local, 1],
])('%s name no instruction set', (_, folder, fewest) => {
  const files = readdirSync(join(folder, 'simd'));
  expect(files.length).toBeGreaterThanOrEqual(fewest);
  const found = files.flatMap((file) =>
    linesWith(readFileSync(join(folder, 'simd', file), 'utf8')).map((line) => `simd/${file}: ${line.trim()}`),
  );
  expect(found).toEqual([]);
});

it.each([
  ['kernels', cpu],
  ['loops of @mtl/comm', local],
])('each instruction set of %s has its file, and a set that is extended follows in the list', (_, folder) => {
  const sets = parseInstructionSets(readFileSync(join(folder, 'isa/sets.cmake'), 'utf8'));
  const headers = readdirSync(join(folder, 'isa'));
  for (const { name } of sets) expect(headers).toContain(`${name}.h`);
  const order = sets.map(({ name }) => name);
  for (const { name, base } of sets)
    if (base !== undefined) expect(order.indexOf(base)).toBeGreaterThan(order.indexOf(name));
  expect(sets.at(-1)).toEqual({ name: 'plain', base: undefined, processor: '.*', needs: [] });
});
