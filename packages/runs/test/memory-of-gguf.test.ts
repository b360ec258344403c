import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ConvertLargeTensorArgument, largeTensorBytes } from './ranks/convert-large-tensor.js';
import { processTestMs, runProcesses } from './support/run-processes.js';

/**
 * Blocks of 2^22 values: one in float32, and twice as much around it for rows in another order; 4 MiB blocks
 * of the checkpoint, four at a time; encoded blocks and the vocabulary's texts, until the garbage collector
 * runs. Measured 92 and 100 MiB.
 */
const bound = 150 * 2 ** 20;

describe('a GGUF file of a model with a tensor of 300 MB', () => {
  let directory: string;
  const convert = async (from: ConvertLargeTensorArgument['from']): Promise<number> => {
    const module = new URL('./ranks/convert-large-tensor.ts', import.meta.url);
    const [growth] = await runProcesses<number>({ worldSize: 1, module, argument: { directory, from } });
    return growth!;
  };
  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'mtl-large-'));
    await convert('save');
  }, processTestMs);
  afterAll(() => rmSync(directory, { recursive: true, force: true }));

  it(
    'takes the memory of some blocks, from a directory and from a checkpoint, and is the same',
    async () => {
      expect(bound).toBeLessThan(largeTensorBytes / 1.8);
      expect(await convert('huggingface')).toBeLessThan(bound);
      expect(await convert('checkpoint')).toBeLessThan(bound);
      const tensors = (from: string): Buffer =>
        readFileSync(join(directory, `${from}.gguf`)).subarray(-largeTensorBytes / 2);
      expect(tensors('checkpoint').equals(tensors('huggingface'))).toBe(true);
    },
    processTestMs,
  );
});
