import { type SavedTensor, type Tape, Variable } from '@mtl/autograd';
import { type DType, Tensor, tidy } from '@mtl/kernels';
import type { ContextCall } from './context-attention.js';
import { type ProjectionSizes, sizesOf } from './projection-parts.js';
import type { MaskTensors } from './query-chunks.js';

/** The results of forward, which backward reads. */
export interface ContextResults {
  /** [s, B, A * D] */
  readonly output: Tensor;
  /** [2, B, A, c]: of each own chunk, over all keys that its queries see. */
  readonly logSumExp: Tensor;
}

export interface ForwardPass extends ContextResults {
  readonly call: ContextCall;
  readonly sizes: ProjectionSizes;
  readonly masks: MaskTensors;
  /** [s, B, (A + 2 G) * D] */
  readonly projection: Tensor;
}

export interface BackwardPass extends ForwardPass {
  /** [s, B, (A + 2 G) * D] */
  readonly gradient: Tensor;
  /** [s, B, A * D] */
  readonly outputGradient: Tensor;
}

/** A way to compute attention of the own queries where keys and values are with other processes. */
export interface ContextOperation {
  readonly name: string;
  /** Writes the results. */
  forward(pass: ForwardPass): void;
  /** Writes the gradient of the projection. */
  backward(pass: BackwardPass): void;
}

/** The dtype of sums of partial results: rounding these to 16 bits would add up over processes. */
export const sumsOf = (dtype: DType): DType => (dtype === 'float64' ? 'float64' : 'float32');

/**
 * Attention as a differentiable operation that keeps what `attention` of @mtl/autograd keeps: the projection,
 * the output and the log-sum-exp of its rows, of the own positions alone.
 */
export function contextOperation(
  tape: Tape,
  call: ContextCall,
  { name, forward, backward }: ContextOperation,
): Variable {
  const { qkv, keyStart, dropout, chunkSize } = call;
  const { dtype, device } = qkv.tensor;
  const sizes = sizesOf(call);
  const { numPositions, batch, heads, headSize } = sizes;
  const output = tape.result(
    Tensor.empty({ shape: [numPositions, batch, heads * headSize], dtype, device }),
    { requiresGradient: qkv.requiresGradient },
  );
  const logSumExp = new Variable(
    Tensor.empty({ shape: [2, batch, heads, chunkSize], dtype: sumsOf(dtype), device }),
    { requiresGradient: false },
  );
  const masks: Readonly<Record<keyof MaskTensors, Variable | undefined>> = {
    keyStart,
    samples: dropout?.samples,
  };
  tidy(() => {
    const results = { output: output.tensor, logSumExp: logSumExp.tensor };
    forward({ call, sizes, masks, projection: qkv.tensor, ...results });
  });
  tape.record(output, () => {
    const save = (mask: Variable | undefined): SavedTensor | undefined => mask && tape.save(mask);
    const saved = { qkv: tape.save(qkv), output: tape.save(output), logSumExp: tape.save(logSumExp) };
    const savedMasks = { keyStart: save(masks.keyStart), samples: save(masks.samples) };
    return {
      name,
      inputs: [qkv],
      parameters: [],
      saved: [...Object.values(saved), ...Object.values(savedMasks).filter((mask) => mask !== undefined)],
      backward: ({ outputGradient }) => {
        // outside of tidy: what is recomputed here belongs to its variable
        const projection = saved.qkv.tensor;
        const results = { output: saved.output.tensor, logSumExp: saved.logSumExp.tensor };
        const gradient = Tensor.empty({ shape: projection.shape, dtype, device });
        tidy(() => {
          const inputs = { call, sizes, masks: savedMasks, projection, ...results };
          backward({ ...inputs, gradient, outputGradient: outputGradient! });
        });
        return [gradient];
      },
    };
  });
  logSumExp.release();
  return output;
}
