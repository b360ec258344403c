import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { parseInstructionSets } from '../native/instruction-sets.mjs';

// Each instruction set is one file in backends/cpu/isa; kernels include these files only through isa.h.

const cpu = fileURLToPath(new URL('../../packages/kernels/native/backends/cpu/', import.meta.url));

/** Macros, headers, types and functions by which the compiler names an instruction set. */
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

it('kernels name no instruction set', () => {
  const files = readdirSync(join(cpu, 'simd'));
  expect(files.length).toBeGreaterThan(40);
  const found = files.flatMap((file) =>
    linesWith(readFileSync(join(cpu, 'simd', file), 'utf8')).map((line) => `simd/${file}: ${line.trim()}`),
  );
  expect(found).toEqual([]);
});

it('each instruction set has its file, and a set that is extended follows in the list', () => {
  const sets = parseInstructionSets(readFileSync(join(cpu, 'isa/sets.cmake'), 'utf8'));
  const headers = readdirSync(join(cpu, 'isa'));
  for (const { name } of sets) expect(headers).toContain(`${name}.h`);
  const order = sets.map(({ name }) => name);
  for (const { name, base } of sets)
    if (base !== undefined) expect(order.indexOf(base)).toBeGreaterThan(order.indexOf(name));
  expect(sets.at(-1)).toEqual({ name: 'plain', base: undefined, processor: '.*', needs: [] });
});
