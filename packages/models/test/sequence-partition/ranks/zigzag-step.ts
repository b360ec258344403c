import { createMeshGroups, ProcessMesh, type World } from '@mtl/comm';
import { setNumThreads, setPoison, Tensor } from '@mtl/kernels';
import { buildGpt, computeStep } from '../../tensor-parallel/small-gpt.js';
import { zigzag } from '../zigzag.js';

export interface ZigzagStepOptions {
  readonly tp: number;
  readonly sequenceParallel: boolean;
  /** The halves of backward one after the other, and layers computed again. */
  readonly splitAndRecomputed: boolean;
}

export interface ZigzagStepResult {
  /** Of the whole sequences. */
  readonly loss: number;
  /** Of each parameter the sum over the ranks that have parts of its gradient. */
  readonly gradients: ReadonlyArray<{
    readonly name: string;
    readonly globalShape: readonly number[];
    readonly slices: readonly { readonly start: number; readonly end: number }[];
    readonly values: Float32Array;
  }>;
}

/** One step of a small GPT whose sequences are divided among ranks. */
export default function zigzagStep(world: World, options: readonly ZigzagStepOptions[]): ZigzagStepResult[] {
  setNumThreads(1);
  setPoison(true);
  return options.map(({ tp, sequenceParallel, splitAndRecomputed }) => {
    const mesh = new ProcessMesh({ tp, cp: world.size / tp });
    const { close, ...groups } = createMeshGroups(world, mesh, { tp: ['tp'], cp: ['cp'], all: ['tp', 'cp'] });
    const summed = (values: Float32Array, group: typeof groups.cp): Float32Array => {
      using tensor = Tensor.from(values, { shape: [values.length], dtype: 'float32' });
      group.allReduce(tensor).wait();
      return tensor.read<'float32'>().slice();
    };
    const how = splitAndRecomputed
      ? ({ split: true, recomputation: { granularity: 'full', method: 'uniform', numLayers: 1 } } as const)
      : {};
    const step = { ...how, sequence: zigzag(groups.cp) };
    const built = buildGpt(step, tp > 1 ? { group: groups.tp, sequenceParallel } : undefined);
    const { loss, gradients } = computeStep(built, step);
    built.dispose();
    const result = {
      loss: summed(Float32Array.of(loss), groups.cp)[0]!,
      gradients: gradients.map(({ name, globalShape, slices, isPartial, values }) => ({
        name,
        globalShape,
        slices,
        values: summed(values, isPartial ? groups.all : groups.cp),
      })),
    };
    close();
    return result;
  });
}
