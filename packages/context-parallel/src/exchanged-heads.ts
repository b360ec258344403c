import { attention, type Tape, type Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { cast, Tensor } from '@mtl/kernels';
import { communicate } from '@mtl/tensor-parallel';
import { inProcessOrder, inSequenceOrder } from './chunk-order.js';
import type { ContextCall } from './context-attention.js';

/**
 * Attention of some heads over all positions: processes exchange the heads of their positions for the
 * positions of their heads, before and after (DeepSpeed-Ulysses, Jacobs et al. 2023).
 *
 * @throws UsageError `MTL_CONTEXT_PARALLEL` where the processes cannot have as many groups of heads each
 */
export function exchangedHeads(tape: Tape, call: ContextCall): Variable {
  const { qkv, numHeads, numGroups = numHeads, headOffset = 0, keyStart, chunkSize, group } = call;
  const { rank, size } = group;
  if (numGroups % size !== 0) {
    throw new UsageError('MTL_CONTEXT_PARALLEL', `${numGroups} groups of heads for ${size} processes`, {
      expected: `a multiple of ${size}: every process has all positions of some of them`,
      remedy: 'let keys and values travel: all_gather or p2p',
    });
  }
  const toHeads = (tensor: Tensor) => settled(positionsOfHeads(tensor, group));
  const toPositions = (tensor: Tensor) => settled(headsOfPositions(tensor, group));
  return tape.scope(() => {
    const projection = communicate(tape, {
      name: 'positions of own heads',
      input: qkv,
      forward: toHeads,
      backward: toPositions,
    });
    const batch = qkv.tensor.dim(1);
    const shape = [batch, 2 * size * chunkSize];
    const attended = attention(tape, {
      qkv: projection,
      numHeads: numHeads / size,
      numGroups: numGroups / size,
      causal: call.causal,
      windowSize: call.windowSize,
      keyStart: keyStart && tape.input(keyStart.tensor.view({ offset: 2 * batch * chunkSize, shape })),
      dropout: call.dropout,
      headOffset: headOffset + (rank * numHeads) / size,
    });
    return communicate(tape, {
      name: 'heads of own positions',
      input: attended,
      forward: toPositions,
      backward: toHeads,
    });
  });
}

const settled = (tensor: Tensor) => ({ wait: () => tensor });

/** [s, B, W] of the own positions as [n, s, B, W / n]: what each of n processes has the heads of; a view. */
function byHeads(tensor: Tensor, size: number): Tensor {
  const [numPositions, batch, width] = tensor.shape as [number, number, number];
  const share = width / size;
  return tensor.strided({
    shape: [size, numPositions, batch, share],
    strides: [share, batch * width, width, 1],
  });
}

/** [s, B, W] of the own positions to [S, B, W / n] of the own heads. */
function positionsOfHeads(tensor: Tensor, group: ProcessGroup): Tensor {
  using view = byHeads(tensor, group.size);
  using leaving = cast({ input: view, dtype: tensor.dtype });
  using arrived = exchanged(leaving, group);
  const [size, numPositions, batch, share] = view.shape as [number, number, number, number];
  using rows = arrived.reshape([size * numPositions, batch, share]);
  return inSequenceOrder(rows, size);
}

/** [S, B, W / n] of the own heads to [s, B, W] of the own positions. */
function headsOfPositions(tensor: Tensor, group: ProcessGroup): Tensor {
  const [length, batch, share] = tensor.shape as [number, number, number];
  const { size } = group;
  const { dtype, device } = tensor;
  using leaving = inProcessOrder(tensor, size);
  using arrived = exchanged(leaving, group);
  const result = Tensor.empty({ shape: [length / size, batch, share * size], dtype, device });
  using view = byHeads(result, size);
  using parts = arrived.reshape(view.shape);
  cast({ output: view, input: parts });
  return result;
}

/** Sends an equal part of the first dimension to each process. */
function exchanged(input: Tensor, group: ProcessGroup): Tensor {
  const { shape, dtype, device } = input;
  const output = Tensor.empty({ shape, dtype, device });
  group.allToAll({ output, input }).wait();
  return output;
}
