import { sharedInt32Array } from '../files/typed-arrays.js';
import type { SequenceSlice } from '../indexed/indexed-dataset.js';
import { Pcg64 } from '../random/pcg64.js';
import type { DataBlend } from './data-path.js';

const numSequences = 100_000;
const longest = 4095;
/** The state of numpy.random.PCG64(0). */
const stateOfSeed0 = {
  state: 35399562948360463058890781895381311971n,
  increment: 87136372517582989555478159403783844777n,
};

/** The parameters of `--mock-data`'s synthetic documents, as plain data that worker threads can receive. */
export interface MockIndex {
  readonly kind: 'mock';
  /** int32 [100000]: the number of tokens in each document. */
  readonly sequenceLengths: Int32Array;
  readonly endOfDocument: number;
  /** The vocabulary size. All tokens are smaller. */
  readonly vocabularySize: number;
}

/**
 * The blend of a run that uses synthetic data instead of the datasets of --data-path. The documents are the
 * same as in Megatron-LM's MockGPTDataset.
 */
export const mockDataBlend: DataBlend = { prefixes: ['mock data'], weights: undefined, isMock: true };

/**
 * Creates the parameters of Megatron-LM's synthetic documents, whose lengths are `default_rng(0).integers(1,
 * 4096, 100000, numpy.int32)`.
 */
export function createMockIndex(options: {
  readonly endOfDocument: number;
  readonly vocabularySize: number;
}): MockIndex {
  const { endOfDocument, vocabularySize } = options;
  const random = new Pcg64(stateOfSeed0);
  const sequenceLengths = sharedInt32Array(numSequences);
  for (let sequence = 0; sequence < numSequences; sequence++)
    sequenceLengths[sequence] = 1 + random.below(longest);
  return { kind: 'mock', sequenceLengths, endOfDocument, vocabularySize };
}

/**
 * Synthetic documents as in Megatron-LM's MockGPTDataset: a document of n tokens consists of the tokens 1 to
 * n - 1, each modulo the vocabulary size, followed by the end-of-document token.
 */
export class MockSequences {
  readonly prefix = mockDataBlend.prefixes[0]!;
  readonly index: MockIndex;

  constructor(index: MockIndex) {
    this.index = index;
  }

  get numSequences(): number {
    return this.index.sequenceLengths.length;
  }
  get sequenceLengths(): Int32Array {
    return this.index.sequenceLengths;
  }

  /**
   * Copies a slice of a sequence into `target`, starting at `targetOffset`. Returns how many tokens were
   * copied.
   */
  copySequence(
    slice: SequenceSlice & { readonly target: Int32Array; readonly targetOffset?: number },
  ): number {
    const { sequence, offset = 0, target, targetOffset = 0 } = slice;
    const { endOfDocument, vocabularySize, sequenceLengths } = this.index;
    const last = sequenceLengths[sequence]! - 1;
    const { length = last + 1 - offset } = slice;
    for (let i = 0; i < length; i++) {
      const at = offset + i;
      target[targetOffset + i] = at === last ? endOfDocument : (at + 1) % vocabularySize;
    }
    return length;
  }

  /** Does nothing, because no file is open. */
  close(): void {}

  [Symbol.dispose](): void {
    this.close();
  }
}
