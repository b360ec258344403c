import type {
  ComputeDtype,
  FusedAttentionOperation,
  KernelOperation,
  MatmulOperation,
} from '@mtl/cost-model';
import type { DType, Operands, Tensor } from '@mtl/kernels';
import { metaDeviceOf } from '@mtl/kernels/internal';

const computeDtypes: Readonly<Partial<Record<DType, ComputeDtype>>> = {
  float32: 'fp32',
  bfloat16: 'bf16',
  float16: 'fp16',
};

/** Operands that are read and written. */
const updated: Readonly<Record<string, readonly string[]>> = {
  adamw: ['parameter', 'firstMoment', 'secondMoment', 'gradient'],
  muon_momentum: ['momentum', 'gradient'],
  muon_update: ['parameter', 'direction'],
  merge_attention: ['output', 'logSumExp'],
  linear_weight_gradient: ['weightGradient', 'biasGradient'],
  layer_norm_backward: ['weightGradient', 'biasGradient'],
};

/** Operands of which only the rows are touched that another operand has: its name. */
const rowsOnly: Readonly<Record<string, { readonly table: string; readonly rows: string }>> = {
  embedding_forward: { table: 'table', rows: 'output' },
  embedding_backward: { table: 'tableGradient', rows: 'outputGradient' },
};

/**
 * Elements that are read and written for each of a matmul's result in addition to it, by what is computed
 * with the matmul: in one pass on GPUs, in a second one on CPUs.
 */
const fused: Readonly<Record<string, { readonly onGpu: number; readonly onCpu: number }>> = {
  linear_gelu_forward: { onGpu: 1, onCpu: 2 },
  linear_gelu_backward: { onGpu: 1, onCpu: 3 },
  linear_residual_forward: { onGpu: 1, onCpu: 3 },
};

/** A native operation as what its time depends on. */
export type RecordedOperation = MatmulOperation | KernelOperation | FusedAttentionOperation;

/** Returns the shapes, FLOPs and bytes of a native operation, which decide its time. */
export function recordedOperation(
  { name, operands }: { readonly name: string; readonly operands: Operands },
  flops: number,
): RecordedOperation {
  const dtype = computeDtypes[inputOf(operands).dtype] ?? 'fp32';
  const variant = drawsNumbers(operands) ? { variant: 'dropout' } : {};
  if (name === 'attention_forward' || name === 'attention_backward') {
    const computed = flops * computedPart(name, operands);
    const bytes = bytesOf(name, operands);
    const sizes = attentionSizes(operands);
    return { kind: 'fused-attention', name, dtype, ...variant, flops: computed, bytes, ...sizes };
  }
  if (flops > 0) return matmulOf({ name, operands, dtype }, flops);
  return { kind: 'kernel', name, dtype, ...variant, time: 'kernels', bytes: bytesOf(name, operands) };
}

const drawsNumbers = ({ dropoutProbability = 0, probability = 0 }: Operands): boolean =>
  Number(dropoutProbability) > 0 || Number(probability) > 0;

/** Keys that a query sees at most, and the size of a head. */
function attentionSizes({ key, starts, longest, windowSize }: Operands): { keys: number; headSize: number } {
  const { shape } = key as Tensor;
  const all = isTensor(starts) ? Number(longest) : shape[0]!;
  const window = Number(windowSize ?? -1);
  return { keys: window < 0 ? all : Math.min(all, window + 1), headSize: shape.at(-1)! };
}

/**
 * Returns how many FLOPs attention computes for each that is counted. Causal attention computes only the
 * pairs of queries and keys that see each other; with a window, those of the window are counted already.
 * Backward computes five matmuls where four are counted, because the scores are computed again.
 */
function computedPart(name: string, operands: Operands): number {
  const { causal } = operands;
  const isLess = (causal === true || causal === 1) && !hasWindow(operands);
  return (isLess ? visiblePart(operands) : 1) * (name.endsWith('backward') ? 1.25 : 1);
}

/**
 * The share of pairs of a query and a key up to its position: half where they are of the same positions, all
 * where keys are before queries, with which processes that share sequences compute.
 */
function visiblePart({ query, key, starts, firstQuery = 0, firstKey = 0 }: Operands): number {
  if (isTensor(starts)) return 0.5;
  const [numQueries, numKeys] = [(query as Tensor).dim(0), (key as Tensor).dim(0)];
  const distance = Number(firstQuery) - Number(firstKey);
  // keys that queries up to a distance from the first key see together
  const seen = (until: number): number => {
    const within = Math.min(Math.max(until, 0), numKeys);
    return within ** 2 / 2 + Math.max(0, until - numKeys) * numKeys;
  };
  return (seen(distance + numQueries) - seen(distance)) / (numQueries * numKeys);
}

/** Tells if queries see fewer keys than there are; packed samples are counted without their window. */
function hasWindow({ windowSize, starts, key }: Operands): boolean {
  if (typeof windowSize !== 'number' || windowSize < 0 || isTensor(starts)) return false;
  return windowSize + 1 < (key as Tensor).dim(0);
}

/**
 * A matmul by its result, and the depth that its FLOPs give; of experts as many matmuls as there are, with as
 * many rows each.
 */
function matmulOf(
  { name, operands, dtype }: { name: string; operands: Operands; dtype: ComputeDtype },
  flops: number,
): MatmulOperation {
  const result = (operands.output ?? operands.weightGradient ?? operands.inputGradient) as Tensor;
  const columns = result.shape.at(-1)!;
  const batch = groupsOf(name, operands);
  const isAdded = operands.accumulate === true || name === 'linear_weight_gradient';
  const isOnGpu = metaDeviceOf(result.device) === 'meta-cuda';
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

/** Groups of rows, each of which is multiplied with a matrix of its own. */
function groupsOf(name: string, { weights, weightGradient }: Operands): number {
  if (!name.startsWith('grouped_')) return 1;
  return ((weights ?? weightGradient) as Tensor).dim(0);
}

/** The first operand that is computed with. */
function inputOf(operands: Operands): Tensor {
  const { left, query, qkv, input, outputGradient, logits, gradient } = operands;
  const found = left ?? query ?? qkv ?? input ?? outputGradient ?? logits ?? gradient;
  return (found ?? Object.values(operands).find(isTensor)) as Tensor;
}

/** Bytes that a kernel reads and writes. */
function bytesOf(name: string, operands: Operands): number {
  const rows = rowsOnly[name];
  if (rows !== undefined) {
    // rows are read, or read and added to
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
