import { type ComputeDtype, type MatmulOperation, matmulBytes } from '@mtl/cost-model';
import { type Operands, observeOperations } from '@mtl/kernels';
import { lastMatmulKernel } from '@mtl/kernels/matmul-choices';
import type { RecordedActivity, StepListener } from '@mtl/pipeline';
import { type RecordedOperation, recordedOperation } from '../plan/recorded-operation.js';

/** The total time and work of an operation's calls with the same sizes, in the profiled steps. */
export interface ProfiledOperation {
  /** The name of the native operation, including its variant. */
  readonly name: string;
  readonly dtype: ComputeDtype;
  /**
   * For a matmul: its sizes (`rows x columns x depth`), the transposed operand, and the code that computed
   * it.
   */
  readonly sizes: string | undefined;
  calls: number;
  seconds: number;
  /** The FLOPs of all calls. A multiply-add counts as 2. */
  flops: number;
  /** The bytes that all calls must read and write. Each operand counts once per call. */
  bytes: number;
}

/** The time of the profiled steps on a rank, by operation. */
export interface StepProfile {
  readonly numSteps: number;
  /** The seconds of all steps together. A step counts from its first pass to its end. */
  readonly seconds: number;
  /** The seconds for which the rank waited for other ranks. */
  readonly waitedSeconds: number;
  readonly operations: readonly ProfiledOperation[];
}

export interface OperationProfileOptions {
  /** The first step to profile, as the trainer counts steps. `last` is the last step to profile. */
  readonly first: number;
  readonly last: number;
  /** Returns how many seconds in total this rank has waited for other ranks. */
  readonly waitedSeconds: () => number;
  /** Called once, after the last step. */
  readonly onProfile: (profile: StepProfile) => void;
}

/**
 * Times every operation of some steps on the host, and counts its FLOPs and bytes. On a GPU the times would
 * have no meaning, because the host only enqueues operations.
 */
export class OperationProfile implements StepListener {
  readonly #options: OperationProfileOptions;
  readonly #operations = new Map<string, ProfiledOperation>();
  #isProfiling = false;
  #stepStart = 0;
  #seconds = 0;
  #waitedAtStart = 0;
  #waited = 0;
  /** The milliseconds that profiling took. They are subtracted from the time of a step. */
  #ownMs = 0;

  constructor(options: OperationProfileOptions) {
    this.#options = options;
  }

  beginStep(step: number): void {
    const { first, last, waitedSeconds } = this.#options;
    this.#isProfiling = step >= first && step <= last;
    if (!this.#isProfiling) return;
    this.#waitedAtStart = waitedSeconds();
    this.#stepStart = performance.now();
  }

  span<Result>(_activity: RecordedActivity, body: () => Result): Result {
    if (!this.#isProfiling) return body();
    return observeOperations((name, operands, { seconds, flops }) => {
      const start = performance.now();
      this.#add(recordedOperation({ name, operands }, flops), { operands, seconds });
      this.#ownMs += performance.now() - start;
    }, body);
  }

  endStep(step: number): void {
    if (!this.#isProfiling) return;
    this.#isProfiling = false;
    const { first, last, waitedSeconds, onProfile } = this.#options;
    this.#seconds += (performance.now() - this.#stepStart - this.#ownMs) / 1000;
    this.#ownMs = 0;
    this.#waited += waitedSeconds() - this.#waitedAtStart;
    if (step < last) return;
    onProfile({
      numSteps: last - first + 1,
      seconds: this.#seconds,
      waitedSeconds: this.#waited,
      operations: [...this.#operations.values()].sort((a, b) => b.seconds - a.seconds),
    });
  }

  #add(
    operation: RecordedOperation,
    { operands, seconds }: { readonly operands: Operands; readonly seconds: number },
  ): void {
    const { name, variant, dtype = 'fp32' } = operation;
    const kernel = name === 'matmul' ? lastMatmulKernel() : undefined;
    const sizes =
      operation.kind === 'matmul'
        ? formatSizes(operation, operands) + (kernel === undefined ? '' : `, ${kernel}`)
        : undefined;
    const key = `${name} ${variant} ${dtype} ${sizes}`;
    const known = this.#operations.get(key);
    const entry = known ?? {
      name: variant === undefined ? name : `${name}, ${variant}`,
      dtype,
      sizes,
      calls: 0,
      seconds: 0,
      flops: 0,
      bytes: 0,
    };
    if (known === undefined) this.#operations.set(key, entry);
    entry.calls += 1;
    entry.seconds += seconds;
    entry.flops += countFlops(operation);
    entry.bytes += countBytes(operation);
  }
}

function formatSizes({ rows, columns, depth }: MatmulOperation, operands: Operands): string {
  const sizes = `${rows} x ${columns} x ${Math.round(depth)}`;
  if (operands.transposeLeft === true) return `${sizes}, left transposed`;
  return operands.transposeRight === true ? `${sizes}, right transposed` : sizes;
}

function countFlops(operation: RecordedOperation): number {
  if (operation.kind === 'kernel') return 0;
  if (operation.kind === 'fused-attention') return operation.flops;
  const { batch, rows, columns, depth } = operation;
  return 2 * batch * rows * columns * depth;
}

const countBytes = (operation: RecordedOperation): number =>
  operation.kind === 'matmul' ? matmulBytes(operation) : operation.bytes;
