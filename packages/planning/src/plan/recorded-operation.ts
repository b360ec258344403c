import type {
  ComputeDtype,
  FusedAttentionOperation,
  KernelOperation,
  MatmulOperation,
} from '@mtl/cost-model';
import { chooseMetaDevice, type DType, type Operands, type Tensor } from '@mtl/kernels';

const computeDtypes: Readonly<Partial<Record<DType, ComputeDtype>>> = {
  float32: 'fp32',
  bfloat16: 'bf16',
  float16: 'fp16',
};

/** The names of the operands that are both read and written, by operation. */
const updated: Readonly<Record<string, readonly string[]>> = {
  adamw: ['parameter', 'firstMoment', 'secondMoment', 'gradient'],
  muon_momentum: ['momentum', 'gradient'],
  muon_update: ['parameter', 'direction'],
  merge_attention: ['output', 'logSumExp'],
  linear_weight_gradient: ['weightGradient', 'biasGradient'],
  layer_norm_backward: ['weightGradient', 'biasGradient'],
};

/**
 * Operations that read or write only some rows of a table: one table row for each row of the operand `rows`.
 */
const rowsOnly: Readonly<Record<string, { readonly table: string; readonly rows: string }>> = {
  embedding_forward: { table: 'table', rows: 'output' },
  embedding_backward: { table: 'tableGradient', rows: 'outputGradient' },
};

/**
 * The number of additional elements read and written per element of a matmul's result, for the computation
 * that is fused with the matmul. On GPUs, this computation belongs to the matmul. On CPUs, it is a second
 * pass over the result.
 */
const fused: Readonly<Record<string, { readonly onGpu: number; readonly onCpu: number }>> = {
  linear_gelu_forward: { onGpu: 1, onCpu: 2 },
  linear_gelu_backward: { onGpu: 1, onCpu: 3 },
  linear_residual_forward: { onGpu: 1, onCpu: 3 },
};

/** A native operation with the properties that determine its time. */
export type RecordedOperation = MatmulOperation | KernelOperation | FusedAttentionOperation;

/** Returns the shapes, FLOPs and bytes of a native operation, which determine its time. */
export function recordedOperation(
  { name, operands }: { readonly name: string; readonly operands: Operands },
  flops: number,
): RecordedOperation {
  const dtype = computeDtypes[findInput(operands).dtype] ?? 'fp32';
  const variant = drawsNumbers(operands) ? { variant: 'dropout' } : {};
  if (name === 'attention_forward' || name === 'attention_backward') {
    const computed = flops * computedPart(name, operands);
    const bytes = countBytes(name, operands);
    const sizes = attentionSizes(operands);
    return { kind: 'fused-attention', name, dtype, ...variant, flops: computed, bytes, ...sizes };
  }
  if (flops > 0) return describeMatmul({ name, operands, dtype }, flops);
  return { kind: 'kernel', name, dtype, ...variant, time: 'kernels', bytes: countBytes(name, operands) };
}

const drawsNumbers = ({ dropoutProbability = 0, probability = 0 }: Operands): boolean =>
  Number(dropoutProbability) > 0 || Number(probability) > 0;

/** Returns the largest number of keys to which any query attends, and the size of a head. */
function attentionSizes({ key, starts, longest, windowSize }: Operands): { keys: number; headSize: number } {
  const { shape } = key as Tensor;
  const all = isTensor(starts) ? Number(longest) : shape[0]!;
  const window = Number(windowSize ?? -1);
  return { keys: window < 0 ? all : Math.min(all, window + 1), headSize: shape.at(-1)! };
}

/**
 * Returns the ratio of attention's computed FLOPs to its counted FLOPs. Causal attention computes only
 * visible pairs of queries and keys. With a window, the counted FLOPs already cover only the window. The
 * backward pass computes five matmuls, because the scores are computed again, but only four matmuls are
 * counted.
 */
function computedPart(name: string, operands: Operands): number {
  const { causal } = operands;
  const isLess = (causal === true || causal === 1) && !hasWindow(operands);
  return (isLess ? visiblePart(operands) : 1) * (name.endsWith('backward') ? 1.25 : 1);
}

/**
 * Returns the fraction of query-key pairs that are visible: half if queries and keys have the same positions,
 * or all if the keys come before the queries, as in context parallelism.
 */
function visiblePart({ query, key, starts, firstQuery = 0, firstKey = 0 }: Operands): number {
  if (isTensor(starts)) return 0.5;
  const [numQueries, numKeys] = [(query as Tensor).dim(0), (key as Tensor).dim(0)];
  const distance = Number(firstQuery) - Number(firstKey);
  // returns the number of visible pairs for queries at distances below `until` from the first key
  const seen = (until: number): number => {
    const within = Math.min(Math.max(until, 0), numKeys);
    return within ** 2 / 2 + Math.max(0, until - numKeys) * numKeys;
  };
  return (seen(distance + numQueries) - seen(distance)) / (numQueries * numKeys);
}

/** Returns true if a window hides keys. Windows of packed samples are ignored. */
function hasWindow({ windowSize, starts, key }: Operands): boolean {
  if (typeof windowSize !== 'number' || windowSize < 0 || isTensor(starts)) return false;
  return windowSize + 1 < (key as Tensor).dim(0);
}

/**
 * Describes a matmul by the shape of its result. The depth is computed from the FLOPs. For experts, describes
 * one matmul for each expert, with the same number of rows.
 */
function describeMatmul(
  { name, operands, dtype }: { name: string; operands: Operands; dtype: ComputeDtype },
  flops: number,
): MatmulOperation {
  const result = (operands.output ?? operands.weightGradient ?? operands.inputGradient) as Tensor;
  const columns = result.shape.at(-1)!;
  const batch = countGroups(name, operands);
  const isAdded = operands.accumulate === true || name === 'linear_weight_gradient';
  const isOnGpu = chooseMetaDevice(result.device) === 'meta-cuda';
  const added = fused[name]?.[isOnGpu ? 'onGpu' : 'onCpu'] ?? 0;
  return {
    kind: 'matmul',
    name,
    dtype,
    time: 'matmuls',
    batch,
    rows: result.size / columns / batch,
    columns,
    depth: flops / (2 * result.size),
    resultBytes: ((isAdded ? 2 : 1) + added) * (result.bytes / result.size),
  };
}

/** Returns the number of groups of rows. Each group is multiplied by a separate matrix. */
function countGroups(name: string, { weights, weightGradient }: Operands): number {
  if (!name.startsWith('grouped_')) return 1;
  return ((weights ?? weightGradient) as Tensor).dim(0);
}

/** Returns the operand that counts as the operation's input. */
function findInput(operands: Operands): Tensor {
  const { left, query, qkv, input, outputGradient, logits, gradient } = operands;
  const found = left ?? query ?? qkv ?? input ?? outputGradient ?? logits ?? gradient;
  return (found ?? Object.values(operands).find(isTensor)) as Tensor;
}

/** Returns the bytes that a kernel reads and writes. */
function countBytes(name: string, operands: Operands): number {
  const rows = rowsOnly[name];
  if (rows !== undefined) {
    // rows are read and written; if they are accumulated, their previous values are also read
    const factor = name === 'embedding_forward' && operands.accumulate !== true ? 2 : 3;
    return factor * (operands[rows.rows] as Tensor).bytes;
  }
  let bytes = 0;
  for (const [operand, value] of Object.entries(operands)) {
    if (!isTensor(value)) continue;
    const isUpdated =
      updated[name]?.includes(operand) || (operand === 'output' && operands.accumulate === true);
    bytes += (isUpdated ? 2 : 1) * value.bytes;
  }
  return bytes;
}

const isTensor = (value: Operands[string]): value is Tensor => typeof value === 'object';
