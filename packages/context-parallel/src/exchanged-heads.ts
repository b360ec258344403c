import type { Tape, Variable } from '@mtl/autograd';
import type { ProcessGroup } from '@mtl/comm';
import { UsageError } from '@mtl/errors';
import { cast, Tensor } from '@mtl/kernels';
import { communicate } from '@mtl/tensor-parallel';
import type { RowOrder } from './chunks.js';
import type { ContextAttentionCall } from './context-attention.js';

/**
 * Attention of some heads over the positions of all processes: these exchange the heads of their positions
 * for the positions of their heads, before and after (DeepSpeed-Ulysses, Jacobs et al. 2023). `attend`
 * computes attention of the own heads: all positions [S, B, ...], packed [T, ...].
 *
 * @throws UsageError `MTL_CONTEXT_PARALLEL` where the processes cannot have as many groups of heads each
 */
export function exchangedHeads(
  tape: Tape,
  { call, order }: { readonly call: ContextAttentionCall; readonly order: RowOrder },
  attend: (tape: Tape, call: ContextAttentionCall) => Variable,
): Variable {
  const { qkv, numHeads, numGroups = numHeads, headOffset = 0 } = call;
  const { rank, size } = order.group;
  if (numGroups % size !== 0) {
    throw new UsageError('MTL_CONTEXT_PARALLEL', `${numGroups} groups of heads for ${size} processes`, {
      expected: `a multiple of ${size}: every process has all positions of some of them`,
      remedy: 'let keys and values travel: all_gather or p2p',
    });
  }
  const toHeads = (tensor: Tensor) => settled(positionsOfHeads(tensor, order));
  const toPositions = (tensor: Tensor) => settled(headsOfPositions(tensor, order));
  return tape.scope(() => {
    const projection = communicate(tape, {
      name: 'positions of own heads',
      input: qkv,
      forward: toHeads,
      backward: toPositions,
    });
    const attended = attend(tape, {
      ...call,
      qkv: projection,
      numHeads: numHeads / size,
      numGroups: numGroups / size,
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

/** [rows, ..., W] as [n, rows, ..., W / n]: the rows of each of n processes' heads; a view. */
function byHeads(tensor: Tensor, size: number): Tensor {
  const [rows, width] = [tensor.shape.slice(0, -1), tensor.dim(-1)];
  const share = width / size;
  const strides = rows.map((_, dim) => rows.slice(dim + 1).reduce((inner, length) => inner * length, width));
  return tensor.strided({ shape: [size, ...rows, share], strides: [share, ...strides, 1] });
}

/** [own, B, W] of the own positions to [S, B, W / n], packed [T, W / n], of the own heads. */
function positionsOfHeads(tensor: Tensor, order: RowOrder): Tensor {
  const { group } = order;
  using own = order.enter(tensor);
  using view = byHeads(own, group.size);
  using leaving = cast({ input: view, dtype: tensor.dtype });
  using arrived = exchanged(leaving, group);
  const [size, numRows, ...rest] = view.shape as [number, number, ...number[]];
  using rows = arrived.reshape([size * numRows, ...rest]);
  return order.inSequenceOrder(rows);
}

/** [S, B, W / n], packed [T, W / n], of the own heads to [own, B, W] of the own positions. */
function headsOfPositions(tensor: Tensor, order: RowOrder): Tensor {
  const { group } = order;
  const { size } = group;
  const { dtype, device } = tensor;
  const [numRows, ...rest] = tensor.shape as [number, ...number[]];
  const share = rest.pop()!;
  using leaving = order.inProcessOrder(tensor);
  using arrived = exchanged(leaving, group);
  using result = Tensor.empty({ shape: [numRows / size, ...rest, share * size], dtype, device });
  using view = byHeads(result, size);
  using parts = arrived.reshape(view.shape);
  cast({ output: view, input: parts });
  return order.leave(result);
}

/** Sends an equal part of the first dimension to each process. */
function exchanged(input: Tensor, group: ProcessGroup): Tensor {
  const { shape, dtype, device } = input;
  const output = Tensor.empty({ shape, dtype, device });
  group.allToAll({ output, input }).wait();
  return output;
}
