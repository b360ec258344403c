import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { buildGptDatasets, createBatchLoader, mockDataBlend } from '../index.js';
import { createMockIndex, MockSequences } from './mock-sequences.js';

// An epoch of the synthetic documents has 205 million tokens. With sequences of only 32 tokens, the test
// would shuffle 6 million samples, which takes seconds.
const sequenceLength = 2048;
const build = (options: { readonly vocabularySize: number; readonly splitWeights?: string }) =>
  buildGptDatasets({
    blend: mockDataBlend,
    sequenceLength,
    seed: 1234,
    numSamples: { train: 8, valid: 4, test: 0 },
    endOfDocument: options.vocabularySize - 1,
    splitWeights: '9,1,0',
    ...options,
  });

describe('mock data', () => {
  it("has the document lengths of Megatron-LM's MockGPTDataset, NumPy's integers(1, 4096, 100000) of seed 0", () => {
    const { sequenceLengths } = createMockIndex({ endOfDocument: 9, vocabularySize: 10 });
    expect([...sequenceLengths.subarray(0, 6)]).toEqual([3484, 2609, 2094, 1105, 1261, 168]);
    const bytes = new Uint8Array(sequenceLengths.buffer);
    // generated with numpy 2: default_rng(seed=0).integers(low=1, high=4096, size=100000,
    // dtype=int32).tobytes()
    expect(createHash('sha256').update(bytes).digest('hex')).toBe(
      'ed8f44f17361fd0c689e0af757ac685fff85bc309c50f698ffb2aac84ebd4cea',
    );
  });

  it('counts in each document, modulo the vocabulary, to the end-of-document token', () => {
    const sequences = new MockSequences(createMockIndex({ endOfDocument: 100, vocabularySize: 101 }));
    const target = new Int32Array(170).fill(-1);
    expect(sequences.copySequence({ sequence: 5, target })).toBe(168);
    expect([...target]).toEqual([...Array.from({ length: 167 }, (_, i) => (i + 1) % 101), 100, -1, -1]);
    const part = new Int32Array(4);
    sequences.copySequence({ sequence: 5, offset: 165, length: 3, target: part, targetOffset: 1 });
    expect([...part]).toEqual([0, 166 % 101, 167 % 101, 100]);
  });

  it.each([101, 50_000])('gives samples without files, of a vocabulary of %i', (vocabularySize) => {
    const { train, valid, test } = build({ vocabularySize });
    expect(test).toBeUndefined();
    expect(train!.length).toBeGreaterThanOrEqual(8);
    expect(valid!.length).toBeGreaterThanOrEqual(4);
    const { tokens, labels } = train!.sample(0);
    for (let i = 0; i < sequenceLength; i++) {
      const [token, label] = [tokens[i]!, labels[i]!];
      const follows =
        label === vocabularySize - 1 || token === vocabularySize - 1 ? label : (token + 1) % vocabularySize;
      expect(label).toBe(follows);
    }
    expect(train!.listDocuments!(0).source).toBe('mock data');
  });

  it('travels to the thread of a loader', async () => {
    const { train } = build({ vocabularySize: 5000 });
    const loader = createBatchLoader({ dataset: train!, sampler: { kind: 'single', microBatchSize: 2 } });
    for await (const batch of loader) {
      const first = batch.tokens.filter((_, at) => at % 2 === 0);
      expect([...first]).toEqual([...train!.sample(batch.sampleNumbers[0]!).tokens]);
      break;
    }
  });
});
