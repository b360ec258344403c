import type { JsonObject, LogicalTensor } from '@mtl/checkpoint';
import { CheckpointError } from '@mtl/errors';
import { sizeOf, type Tensor } from '@mtl/kernels';
import type { AdamwOptimizer, LossScaler, ParameterRange } from '@mtl/optimizer';
import type { TrainingProgress } from './trainer.js';

const optimizerPrefix = 'optimizer.';

/** Whether a tensor of a checkpoint is optimizer state, which --no-load-optim and --finetune leave alone. */
export function isOptimizerTensor(name: string): boolean {
  return name.startsWith(optimizerPrefix);
}

function logicalTensor(name: string, buffer: Tensor, range: ParameterRange): LogicalTensor {
  const { parameter, start } = range;
  const withView = <T>(body: (view: Tensor) => T): T => {
    const view = buffer.view({ offset: start, shape: parameter.shape });
    try {
      return body(view);
    } finally {
      view.dispose();
    }
  };
  return {
    name,
    dtype: 'F32',
    globalShape: parameter.globalShape,
    slices: parameter.slices.map(({ start: first, end }) => [first, end] as const),
    read: () =>
      withView((view) => {
        const values = view.read<'float32'>();
        return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
      }),
    write: (bytes) => {
      // a copy where the bytes do not lie on a float's boundary
      const aligned = bytes.byteOffset % 4 === 0 ? bytes : Uint8Array.from(bytes);
      withView((view) =>
        view.write(new Float32Array(aligned.buffer, aligned.byteOffset, sizeOf(parameter.shape))),
      );
    },
  };
}

/** Master weights under their logical names. */
export function weightTensors({ buffers }: AdamwOptimizer): LogicalTensor[] {
  return buffers.ranges.map((range) => logicalTensor(range.parameter.name, buffers.master, range));
}

/** Adam's moments as `optimizer.exp_avg.NAME` and `optimizer.exp_avg_sq.NAME`. */
export function optimizerTensors(optimizer: AdamwOptimizer): LogicalTensor[] {
  return optimizer.state.flatMap(({ name, buffer }) =>
    optimizer.buffers.ranges.map((range) =>
      logicalTensor(`${optimizerPrefix}${name}.${range.parameter.name}`, buffer, range),
    ),
  );
}

/** What a checkpoint holds besides tensors. Random numbers are counter-based: the seed in the configuration is all. */
export interface TrainingState {
  readonly progress: TrainingProgress;
  readonly optimizerSteps: number;
  readonly lossScaler: {
    readonly scale: number;
    readonly growthTracker: number;
    readonly hysteresisTracker: number;
  };
  readonly configuration: JsonObject;
}

export function trainingState(options: {
  readonly progress: TrainingProgress;
  readonly optimizer: AdamwOptimizer;
  readonly lossScaler: LossScaler;
  readonly configuration: JsonObject;
}): JsonObject {
  const { progress, optimizer, lossScaler, configuration } = options;
  return {
    progress: { ...progress },
    optimizerSteps: optimizer.numSteps,
    lossScaler: { ...lossScaler.state() },
    configuration,
  };
}

/** The training state in a checkpoint's manifest. */
export function readTrainingState(state: JsonObject, path: string): TrainingState {
  const read = state as unknown as TrainingState;
  const known =
    Number.isInteger(read.progress?.iteration) &&
    Number.isInteger(read.progress?.consumedSamples) &&
    Number.isInteger(read.optimizerSteps) &&
    typeof read.lossScaler?.scale === 'number';
  if (known) return read;
  throw new CheckpointError('MTL_CHECKPOINT_STATE', `${path} does not hold the state of a training`, {
    remedy: 'use --finetune to take only the weights',
    exitCode: 2,
  });
}
