import type { ProcessGroup, Work } from '@mtl/comm';
import { attentionBackward, attentionForward, cast, mergeAttention, scale, Tensor } from '@mtl/kernels';
import type { ChunkPair } from './chunks.js';
import {
  type BackwardPass,
  type ContextOperation,
  chooseSumDtype,
  type ForwardPass,
  ownGradients,
  ownResults,
  type Pass,
} from './context-operation.js';
import { joinKeysAndValues, rowsOfPlace, splitKeysAndValues } from './heads-of-rows.js';

/**
 * Attention in which keys and values are passed around a ring of processes (Ring Attention, Liu et al. 2023).
 * Each process computes with a block of keys and values while it sends the block to the next process. It
 * merges the partial outputs by their log-sum-exp. At any time, a process holds its own keys and values, and
 * at most two blocks of other processes. In backward, the gradients of keys and values are also passed around
 * the ring, in float32.
 */
export const ringAttention: ContextOperation = { name: 'ring attention', forward, backward };

/** Exchanges messages with the neighbours in a ring. */
class Ring {
  readonly #group: ProcessGroup;
  readonly #to: number;
  readonly #from: number;

  /** @param step 1: sends to the next process; -1: sends to the previous process */
  constructor(group: ProcessGroup, step: 1 | -1) {
    this.#group = group;
    this.#to = (group.rank + step + group.size) % group.size;
    this.#from = (group.rank - step + group.size) % group.size;
  }

  send(tensor: Tensor): Work {
    return this.#group.send(tensor, { to: this.#to });
  }

  /** Starts to receive into a new tensor with the shape and dtype of `like`. */
  receive(like: Tensor): Arriving {
    const { shape, dtype, device } = like;
    const tensor = Tensor.empty({ shape, dtype, device });
    const work = this.#group.receive(tensor, { from: this.#from });
    return {
      wait: () => {
        work.wait();
        return tensor;
      },
    };
  }
}

/** A tensor that is being received. */
interface Arriving {
  wait(): Tensor;
}

/**
 * A pair of chunks, one of queries and one of keys: the number of each chunk, and its index among the chunks
 * of its process.
 */
interface PairOfPlaces extends ChunkPair {
  readonly queryPlace: number;
  readonly keyPlace: number;
}

/**
 * Returns the pairs of this process's query chunks and `owner`'s key chunks in which at least one query may
 * attend to a key.
 */
function pairsWith({ call, chunks }: Pass, owner: number): readonly PairOfPlaces[] {
  const { rank } = chunks.group;
  return chunks
    .ofRank(rank)
    .flatMap((queries, queryPlace) =>
      chunks.ofRank(owner).map((keys, keyPlace) => ({ queries, queryPlace, keys, keyPlace })),
    )
    .filter((pair) => chunks.mayBeSeen(call, pair));
}

function forward(pass: ForwardPass): void {
  const { call, chunks, sizes, heads, output } = pass;
  const { group } = chunks;
  const { heads: numHeads, headSize, valueSize } = sizes;
  const [dtype, { device }] = [chooseSumDtype(output.dtype), output];
  const sums = Tensor.empty({ shape: output.shape, dtype, device });
  const part = {
    output: Tensor.empty({ shape: [...chunks.shape, numHeads, valueSize], dtype, device }),
    logSumExp: Tensor.empty({ shape: chunks.statisticsShape(numHeads), dtype, device }),
  };
  const begun = new Set<number>();
  const attend = (keysAndValues: Tensor, owner: number): void => {
    for (const { queryPlace, keyPlace, ...pair } of pairsWith(pass, owner)) {
      const { query, logSumExp } = ownResults(pass, queryPlace);
      const whole = { output: rowsOfPlace(sums, queryPlace, chunks), logSumExp };
      const isFirst = !begun.has(queryPlace);
      begun.add(queryPlace);
      attentionForward({
        ...(isFirst ? whole : part),
        highestScores: call.highestScores,
        query,
        ...splitKeysAndValues(rowsOfPlace(keysAndValues, keyPlace, chunks), headSize),
        ...chunks.optionsOfPair(call, pair),
      });
      if (isFirst) continue;
      mergeAttention({ ...whole, partOutput: part.output, partLogSumExp: part.logSumExp });
    }
  };
  const ring = new Ring(group, 1);
  let current = joinKeysAndValues(heads);
  for (let step = 0; step < group.size; step++) {
    const isLast = step === group.size - 1;
    const leaving = isLast ? undefined : ring.send(current);
    const arriving = isLast ? undefined : ring.receive(current);
    attend(current, (group.rank - step + group.size) % group.size);
    const next = arriving?.wait();
    leaving?.wait();
    current.dispose();
    if (next !== undefined) current = next;
  }
  cast({ output, input: sums });
}

/**
 * Computes the gradients. In step i, the block of keys and values of process r + i is on process r. Its
 * gradient has already visited the processes from r + i - 1 down to r + 1. After step i, the gradient moves
 * to the next process, and it reaches its owner after the last step.
 */
function backward(pass: BackwardPass): void {
  const { call, chunks, heads, gradient } = pass;
  const { group } = chunks;
  const { headSize } = pass.sizes;
  const [dtype, { device }] = [chooseSumDtype(heads.key.dtype), heads.key];
  const own = chunks.ofRank(group.rank).map((_, place) => ownGradients(pass, place));
  const queryShape = own[0]!.query.shape;
  const newSums = (shape: readonly number[]): Tensor => {
    const sums = Tensor.empty({ shape, dtype, device });
    sums.zero();
    return sums;
  };
  const querySums = own.map(() => newSums(queryShape));
  const ring = new Ring(group, -1);
  let current = joinKeysAndValues(heads);
  /**
   * Adds the contributions of this process's queries to `sums`, the gradients of a block of keys and values.
   */
  const differentiate = (keysAndValues: Tensor, owner: number, sums: Tensor): void => {
    for (const { queryPlace, keyPlace, ...pair } of pairsWith(pass, owner)) {
      const ofKeys = rowsOfPlace(sums, keyPlace, chunks);
      const { key: keyGradient, value: valueGradient } = splitKeysAndValues(ofKeys, headSize);
      attentionBackward({
        ...own[queryPlace]!,
        queryGradient: querySums[queryPlace]!,
        keyGradient,
        valueGradient,
        accumulate: true,
        ...splitKeysAndValues(rowsOfPlace(keysAndValues, keyPlace, chunks), headSize),
        ...chunks.optionsOfPair(call, pair),
      });
    }
  };
  const blockShape = current.shape;
  const ownSums = newSums(blockShape);
  let leavingSums: { readonly work: Work; readonly tensor: Tensor } | undefined;
  for (let step = 0; step < group.size; step++) {
    const isLast = step === group.size - 1;
    // receives the gradient sums of earlier processes, which those processes sent before this step's next
    // block
    const arrivingSums = step > 1 ? ring.receive(ownSums) : undefined;
    const leaving = isLast ? undefined : ring.send(current);
    const arriving = isLast ? undefined : ring.receive(current);
    const sums = step === 0 ? ownSums : newSums(blockShape);
    differentiate(current, (group.rank + step) % group.size, sums);
    if (arrivingSums !== undefined) {
      const before = arrivingSums.wait();
      scale({ output: sums, input: before, factor: 1, accumulate: true });
      before.dispose();
    }
    const next = arriving?.wait();
    leaving?.wait();
    current.dispose();
    if (next !== undefined) current = next;
    leavingSums?.work.wait();
    leavingSums?.tensor.dispose();
    leavingSums = step === 0 ? undefined : { work: ring.send(sums), tensor: sums };
  }
  const home = ring.receive(ownSums).wait();
  leavingSums?.work.wait();
  scale({ output: ownSums, input: home, factor: 1, accumulate: true });
  const { key, value } = splitKeysAndValues(ownSums, headSize);
  cast({ output: gradient.key, input: key });
  cast({ output: gradient.value, input: value });
  own.forEach(({ queryGradient }, place) => {
    cast({ output: queryGradient, input: querySums[place]! });
  });
}
