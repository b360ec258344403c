import type { ProcessGroup, Work } from '@mtl/comm';
import { attentionBackward, attentionForward, cast, mergeAttention, scale, Tensor } from '@mtl/kernels';
import type { ContextCall } from './context-attention.js';
import { type BackwardPass, type ContextOperation, type ForwardPass, sumsOf } from './context-operation.js';
import { ownGradients, ownResults } from './own-tensors.js';
import { keysAndValuesIn, keysAndValuesOf, splitKeysAndValues } from './projection-parts.js';
import { masksOf, mayBeSeen, type QueryChunk, queryChunks, rowsOfHalf } from './query-chunks.js';
import { chunksOfRank } from './sequence-chunks.js';

/**
 * Keys and values go round, from each process to the next, while it computes with those it has; partial
 * outputs are merged by their log-sum-exp (Ring Attention, Liu et al. 2023). Besides its own, a process holds
 * the keys and values of two others at most. In backward the gradients of keys and values follow them, in
 * float32.
 */
export const ringAttention: ContextOperation = { name: 'ring attention', forward, backward };

/** Messages to the neighbours in a ring. */
class Ring {
  readonly #group: ProcessGroup;
  readonly #to: number;
  readonly #from: number;

  /** @param step 1: to the next process, -1: to the one before */
  constructor(group: ProcessGroup, step: 1 | -1) {
    this.#group = group;
    this.#to = (group.rank + step + group.size) % group.size;
    this.#from = (group.rank - step + group.size) % group.size;
  }

  send(tensor: Tensor): Work {
    return this.#group.send(tensor, { to: this.#to });
  }

  /** Into a new tensor like `like`. */
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

/** A tensor that is on its way. */
interface Arriving {
  wait(): Tensor;
}

/** The pairs of own queries and keys of a process that may see each other. */
function pairsWith(
  call: ContextCall,
  owner: number,
): readonly { readonly queries: QueryChunk; readonly keys: QueryChunk }[] {
  const { group, chunkSize } = call;
  const keyChunks = chunksOfRank(owner, group.size).map((chunk, half) => ({
    half,
    chunk,
    first: chunk * chunkSize,
  }));
  return queryChunks(call).flatMap((queries) =>
    keyChunks
      .filter((keys) => mayBeSeen(call, { queries: queries.chunk, keys: keys.chunk }))
      .map((keys) => ({ queries, keys })),
  );
}

function forward(pass: ForwardPass): void {
  const { call, sizes, masks, projection, output } = pass;
  const { group } = call;
  const { numPositions, batch, heads, headSize } = sizes;
  const [dtype, { device }] = [sumsOf(projection.dtype), projection];
  const sums = Tensor.empty({ shape: [numPositions, batch, heads, headSize], dtype, device });
  const part = {
    output: Tensor.empty({ shape: [call.chunkSize, batch, heads, headSize], dtype, device }),
    logSumExp: Tensor.empty({ shape: [batch, heads, call.chunkSize], dtype, device }),
  };
  const isBegun = [false, false];
  const attend = (keysAndValues: Tensor, owner: number): void => {
    for (const { queries, keys } of pairsWith(call, owner)) {
      const { query, logSumExp } = ownResults(pass, queries);
      const whole = { output: rowsOfHalf(sums, queries.half), logSumExp };
      const isFirst = !isBegun[queries.half];
      isBegun[queries.half] = true;
      attentionForward({
        ...(isFirst ? whole : part),
        query,
        ...splitKeysAndValues(rowsOfHalf(keysAndValues, keys.half)),
        ...masksOf(call, masks, { ...queries, firstKey: keys.first }),
      });
      if (isFirst) continue;
      mergeAttention({ ...whole, partOutput: part.output, partLogSumExp: part.logSumExp });
    }
  };
  const ring = new Ring(group, 1);
  let current = keysAndValuesOf(projection, sizes);
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
  cast({ output: output.reshape(sums.shape), input: sums });
}

/**
 * The block of process r + i is here in step i; its gradient has been on the processes from r + i - 1 down to
 * r + 1 before, and goes on from here, so that it comes home after the last step.
 */
function backward(pass: BackwardPass): void {
  const { call, sizes, masks, projection, gradient } = pass;
  const { group } = call;
  const [dtype, { device }] = [sumsOf(projection.dtype), projection];
  const queries = queryChunks(call);
  const own = queries.map((chunk) => ({ ...ownResults(pass, chunk), ...ownGradients(pass, chunk) }));
  const queryShape = own[0]!.query.shape;
  const newSums = (shape: readonly number[]): Tensor => {
    const sums = Tensor.empty({ shape, dtype, device });
    sums.zero();
    return sums;
  };
  const querySums = queries.map(() => newSums(queryShape));
  const ring = new Ring(group, -1);
  let current = keysAndValuesOf(projection, sizes);
  /** Adds the gradients of a block of keys and values, by the own queries, to `sums`. */
  const differentiate = (keysAndValues: Tensor, owner: number, sums: Tensor): void => {
    for (const { queries: chunk, keys } of pairsWith(call, owner)) {
      const { key: keyGradient, value: valueGradient } = splitKeysAndValues(rowsOfHalf(sums, keys.half));
      attentionBackward({
        ...own[chunk.half]!,
        queryGradient: querySums[chunk.half]!,
        keyGradient,
        valueGradient,
        accumulate: true,
        ...splitKeysAndValues(rowsOfHalf(keysAndValues, keys.half)),
        ...masksOf(call, masks, { ...chunk, firstKey: keys.first }),
      });
    }
  };
  const blockShape = current.shape;
  const ownSums = newSums(blockShape);
  let leavingSums: { readonly work: Work; readonly tensor: Tensor } | undefined;
  for (let step = 0; step < group.size; step++) {
    const isLast = step === group.size - 1;
    // what processes before have added, which was sent before the block of this step's next one
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
  cast({ output: keysAndValuesIn(gradient, sizes), input: ownSums });
  queries.forEach(({ half }) => {
    cast({ output: own[half]!.queryGradient, input: querySums[half]! });
  });
}
