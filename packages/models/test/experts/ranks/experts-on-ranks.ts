import { allocateParameters, initializeParameter } from '@mtl/autograd';
import { createMeshGroups, type ProcessGroup, type Work, type World } from '@mtl/comm';
import { CallbackWork } from '@mtl/comm/testing';
import { type DType, setNumThreads, type Tensor } from '@mtl/kernels';
import { setPoison } from '@mtl/kernels/internal';
import { ProcessMesh } from '@mtl/layout';
import type { ExpertParallel } from '@mtl/tensor-parallel';
import {
  type GptModelConfiguration,
  GptStage,
  numLossTokens,
  type Recomputation,
} from '../../../src/index.js';
import { smallBatch, smallGpt } from '../../tensor-parallel/small-gpt.js';

/**
 * When collectives between processes of experts run: at their `start`, as usual (`between`), or only in
 * `wait`.
 */
export type Moment = 'start' | 'between' | 'wait';

export interface ExpertsOnRanks {
  readonly sizes: { readonly ep: number; readonly etp: number };
  readonly dispatcher: 'alltoall' | 'allgather';
  readonly model: Partial<GptModelConfiguration>;
  readonly dtype?: DType;
  readonly recomputation?: Recomputation;
  readonly moments: readonly Moment[];
}

interface Operands {
  readonly output: Tensor;
  readonly input: Tensor;
}

/** The results of a rank: losses by name, and all gradients. */
export interface ExpertsResult {
  readonly losses: Readonly<Record<string, number>>;
  readonly gradients: Readonly<Record<string, Float32Array>>;
}

/**
 * Returns a group whose collectives run at another moment, to check that results are read only after a wait.
 */
function atMoment(group: ProcessGroup, moment: Moment): ProcessGroup {
  if (moment === 'between') return group;
  const moved = (call: Operands, run: (call: Operands) => Work): Work => {
    if (moment === 'start') {
      run(call).wait();
      return new CallbackWork();
    }
    // callers may dispose of tensors before they wait
    const { output, input } = call;
    const held = {
      output: output.view({ shape: output.shape }),
      input: input.view({ shape: input.shape }),
    };
    return new CallbackWork({
      wait: () => {
        run({ ...call, ...held }).wait();
        for (const view of Object.values(held)) view.dispose();
      },
      isDone: () => false,
    });
  };
  return new Proxy(group, {
    get: (target, name) => {
      if (name === 'allToAll' || name === 'allGather' || name === 'reduceScatter') {
        return (call: Operands) => moved(call, (each) => target[name](each));
      }
      return Reflect.get(target, name, target);
    },
  });
}

function compute(
  { model, dtype = 'float32', recomputation }: Omit<ExpertsOnRanks, 'moments' | 'sizes' | 'dispatcher'>,
  expertParallel: ExpertParallel,
): ExpertsResult {
  const common = { device: 'cpu', seed: 5, dtype } as const;
  const stage = new GptStage({
    ...common,
    model: { ...smallGpt, hiddenDropout: 0, attentionDropout: 0, ...model },
    expertParallel,
    ...(recomputation && { recomputation }),
  });
  const storage = allocateParameters(stage.parameters, { device: 'cpu', dtype, mainGradients: true });
  for (const parameter of stage.parameters) initializeParameter(parameter, parameter.data, 5);
  const batch = smallBatch();
  const factor = 1 / numLossTokens(batch);
  const lossFactors = Object.fromEntries(['lm_loss', ...stage.layerLosses].map((name) => [name, factor]));
  stage.forward({ microBatch: 0, batch, lossFactors });
  stage.backwardInput({ microBatch: 0, weights: false });
  stage.backwardWeight({ microBatch: 0 });
  const losses = Object.fromEntries(
    stage.takeLosses(0).map((loss) => {
      const weights = loss.weights.toArray();
      const sum = loss.losses.toArray().reduce((total, value, index) => total + value * weights[index]!, 0);
      loss.dispose();
      return [loss.name, sum];
    }),
  );
  const gradients = Object.fromEntries(
    stage.parameters
      .filter(({ isFrozen }) => !isFrozen)
      .map(({ name, mainGradient }) => [name, Float32Array.from(mainGradient.toArray())]),
  );
  stage.dispose();
  storage.dispose();
  return { losses, gradients };
}

/** Runs a step of each layout, at each moment, on this rank. */
export default function expertsOnRanks(
  world: World,
  layouts: readonly ExpertsOnRanks[],
): readonly (readonly ExpertsResult[])[] {
  setNumThreads(1);
  // unwritten memory must not look right because it held the same values before
  setPoison(true);
  return layouts.map(({ sizes: { ep, etp }, dispatcher, moments, ...options }) => {
    const mesh = new ProcessMesh({ dp: world.size, ep, etp });
    const { close, ...groups } = createMeshGroups(world, mesh, {
      ...(ep > 1 && { spread: ['ep'] }),
      ...(etp > 1 && { sharing: ['etp'] }),
      all: ['etp', 'ep'],
    });
    const results = moments.map((moment) => {
      const moved = Object.entries(groups).map(([name, group]) => [
        name,
        atMoment(group as ProcessGroup, moment),
      ]);
      return compute(options, { ...Object.fromEntries(moved), dispatcher });
    });
    close();
    return results;
  });
}
