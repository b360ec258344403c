import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { bytesOfValues, tensorTypes } from '../tensor-types.js';
import { codecs } from './codecs.js';

/**
 * Reads a fixture made by tooling/fixtures/gguf-blocks.py: float32 values, or the blocks into which ggml
 * itself quantized these values.
 */
const fixture = (name: string): Uint8Array =>
  new Uint8Array(readFileSync(new URL(`../../../fixtures/gguf-blocks/${name}`, import.meta.url)));

const values = new Float32Array(fixture('values.f32').buffer);
const blockTypes = ['Q4_0', 'Q5_0', 'Q5_1', 'Q8_0', 'Q4_K', 'Q5_K', 'Q6_K'] as const;

describe.each(blockTypes)('%s', (type) => {
  it("has the bytes of ggml's own quantisation", () => {
    const expected = fixture(`${type}.bin`);
    const encoded = codecs[type].encode(values);
    expect(encoded.length).toBe(expected.length);
    const rowBytes = bytesOfValues(type, 256);
    for (let row = 0; row < values.length / 256; row++) {
      const bytes = (from: Uint8Array) => [...from.subarray(row * rowBytes, (row + 1) * rowBytes)];
      expect(bytes(encoded), `row ${row}`).toEqual(bytes(expected));
    }
  });

  it('encodes rows apart as it encodes them together', () => {
    const whole = codecs[type].encode(values);
    const middle = 7 * 256;
    const parts = [values.subarray(0, middle), values.subarray(middle)].map((part) =>
      codecs[type].encode(part),
    );
    expect(Buffer.concat(parts).equals(whole)).toBe(true);
  });
});

it('knows the bytes of blocks', () => {
  const bytes = Object.fromEntries(blockTypes.map((type) => [type, tensorTypes[type].blockBytes]));
  expect(bytes).toEqual({ Q4_0: 18, Q5_0: 22, Q5_1: 24, Q8_0: 34, Q4_K: 144, Q5_K: 176, Q6_K: 210 });
});

it('decodes Q8_0 to within half a level of the values', () => {
  const decoded = new Float32Array(values.length);
  codecs.Q8_0.decode!(codecs.Q8_0.encode(values), decoded);
  for (let start = 0; start < values.length; start += 32) {
    const block = values.subarray(start, start + 32);
    const largest = block.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
    // the error is at most half a level plus two rounding errors, each over 127 levels: the rounding of the
    // scale to float16, and the smallest float16 step
    const bound = (largest / 127) * (0.5 + 127 * 2 ** -11) + 127 * 2 ** -25;
    const worst = block.reduce((far, value, at) => Math.max(far, Math.abs(decoded[start + at]! - value)), 0);
    expect(worst).toBeLessThanOrEqual(bound * (1 + 1e-6));
  }
});

it.each(['F32', 'F16', 'BF16'] as const)('decodes %s to the values that it stores', (type) => {
  const [once, twice] = [new Float32Array(values.length), new Float32Array(values.length)];
  codecs[type].decode!(codecs[type].encode(values).slice(), once);
  codecs[type].decode!(codecs[type].encode(once).slice(), twice);
  expect(twice).toEqual(once);
  const epsilon = { F32: 0, F16: 2 ** -11, BF16: 2 ** -8 }[type];
  for (const [index, value] of values.entries()) {
    // the smallest steps of float16 are 2^-24
    expect(Math.abs(once[index]! - value)).toBeLessThanOrEqual(
      epsilon * Math.abs(value) + (type === 'F16' ? 2 ** -25 : 0),
    );
  }
});
