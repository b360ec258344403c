import { siteKey } from '@mtl/autograd';
import {
  attentionCachedForward,
  attentionForward,
  cast,
  type DType,
  embeddingForward,
  matmul,
  philoxNormal,
  splitProjection,
  Tensor,
  tidy,
} from '@mtl/kernels';
import type { CausalLanguageModel, KeyValueCache } from '../../src/index.js';

const heads = 2;
const headSize = 8;
const hidden = heads * headSize;

interface Slots extends KeyValueCache {
  readonly keys: Tensor;
  readonly values: Tensor;
  /** All tokens of each slot, which recomputation reads. */
  readonly texts: number[][];
}

/**
 * One layer of causal attention between an embedding and its transpose: the smallest model whose answer
 * depends on every earlier token. With `recomputes` it has no use for a cache: each call attends over the
 * whole text by the kernel of training.
 */
export class AttentionModel implements CausalLanguageModel<Slots> {
  readonly vocabularySize: number;
  readonly maximumContext: number;
  numCalls = 0;
  readonly #dtype: DType;
  readonly #recomputes: boolean;
  readonly #embedding: Tensor;
  readonly #positions: Tensor;
  readonly #qkv: Tensor;

  constructor(
    options: { vocabularySize?: number; maximumContext?: number; dtype?: DType; recomputes?: boolean } = {},
  ) {
    this.vocabularySize = options.vocabularySize ?? 40;
    this.maximumContext = options.maximumContext ?? 24;
    this.#dtype = options.dtype ?? 'float32';
    this.#recomputes = options.recomputes ?? false;
    const normal = (name: string, rows: number, standardDeviation: number): Tensor => {
      const output = Tensor.empty({ shape: [rows, hidden], dtype: this.#dtype });
      philoxNormal({ output, standardDeviation, key: siteKey(3, name), globalColumns: hidden });
      return output;
    };
    this.#embedding = normal('embedding', this.vocabularySize, 0.5);
    this.#positions = normal('positions', this.maximumContext, 0.5);
    this.#qkv = normal('qkv', 3 * hidden, 0.5);
  }

  newCache({ batchSize, capacity }: { batchSize: number; capacity: number }): Slots {
    const shape = [batchSize, heads, capacity, headSize];
    const keys = Tensor.empty({ shape, dtype: this.#dtype });
    const values = Tensor.empty({ shape, dtype: this.#dtype });
    const lengths = new Array<number>(batchSize).fill(0);
    const texts: number[][] = Array.from({ length: batchSize }, () => []);
    return {
      batchSize,
      capacity,
      lengths,
      keys,
      values,
      texts,
      copySequence: ({ from, to }) => {
        for (const cache of [keys, values])
          cast({ output: cache.rows(to, to + 1), input: cache.rows(from, from + 1) });
        lengths[to] = lengths[from]!;
        texts[to] = [...texts[from]!];
      },
      dispose: () => {
        keys.dispose();
        values.dispose();
      },
    };
  }

  forward(call: { cache: Slots; sequences: readonly { slot: number; tokens: Int32Array }[] }): Float32Array {
    this.numCalls += 1;
    const rows = call.sequences.map(({ slot, tokens }) => {
      const position = call.cache.lengths[slot]!;
      const text = [...call.cache.texts[slot]!.slice(0, position), ...tokens];
      call.cache.texts[slot] = text;
      call.cache.lengths[slot] = text.length;
      const logits = this.#recomputes
        ? this.#logits({ tokens: text, position: 0 })
        : this.#logits({ tokens: [...tokens], position, cache: call.cache, slot });
      return logits.slice(-this.vocabularySize);
    });
    const all = new Float32Array(rows.length * this.vocabularySize);
    rows.forEach((row, index) => {
      all.set(row, index * this.vocabularySize);
    });
    return all;
  }

  tokenLosses(call: { tokens: Int32Array; labels: Int32Array; batchSize: number }): Float32Array {
    const length = call.tokens.length / call.batchSize;
    const losses = new Float32Array(call.tokens.length);
    for (let row = 0; row < call.batchSize; row++) {
      const tokens = [...call.tokens.subarray(row * length, (row + 1) * length)];
      const logits = this.#logits({ tokens, position: 0 });
      for (let index = 0; index < length; index++) {
        const own = logits.subarray(index * this.vocabularySize, (index + 1) * this.vocabularySize);
        losses[row * length + index] =
          Math.log(own.reduce((sum, value) => sum + Math.exp(value), 0)) -
          own[call.labels[row * length + index]!]!;
      }
    }
    return losses;
  }

  dispose(): void {
    for (const tensor of [this.#embedding, this.#positions, this.#qkv]) tensor.dispose();
  }

  /** Computes logits [tokens, V], with the cache of a slot or without any. */
  #logits(text: { tokens: number[]; position: number; cache?: Slots; slot?: number }): Float32Array {
    const { tokens, position, cache, slot = 0 } = text;
    const length = tokens.length;
    const dtype = this.#dtype;
    return tidy(() => {
      const ids = (values: readonly number[]): Tensor =>
        Tensor.from(values, { shape: [length, 1], dtype: 'int32' });
      const input = Tensor.empty({ shape: [length, 1, hidden], dtype });
      embeddingForward({ output: input, ids: ids(tokens), table: this.#embedding });
      const positions = ids(tokens.map((_, index) => position + index));
      embeddingForward({ output: input, ids: positions, table: this.#positions, accumulate: true });
      const qkv = Tensor.empty({ shape: [length, 1, heads, 3, headSize], dtype });
      matmul({
        output: qkv.reshape([length, 3 * hidden]),
        left: input.reshape([length, hidden]),
        right: this.#qkv,
        transposeRight: true,
      });
      const output = Tensor.empty({ shape: [length, 1, heads, headSize], dtype });
      if (cache === undefined) {
        const logSumExp = Tensor.empty({ shape: [1, heads, length], dtype: 'float32' });
        attentionForward({ output, logSumExp, ...splitProjection(qkv), visibility: { causal: true } });
      } else {
        const shape = [1, heads, cache.capacity, headSize];
        const offset = slot * heads * cache.capacity * headSize;
        attentionCachedForward({
          output,
          ...splitProjection(qkv),
          position,
          keyCache: cache.keys.view({ offset, shape }),
          valueCache: cache.values.view({ offset, shape }),
        });
      }
      const logits = Tensor.empty({ shape: [length, this.vocabularySize], dtype: 'float32' });
      matmul({
        output: logits,
        left: output.reshape([length, hidden]),
        right: this.#embedding,
        transposeRight: true,
      });
      return { values: logits.read<'float32'>() };
    }).values;
  }
}
