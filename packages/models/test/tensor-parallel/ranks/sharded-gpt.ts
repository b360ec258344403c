import type { OperationCount, World } from '@mtl/comm';
import { setNumThreads } from '@mtl/kernels';
import { setPoison } from '@mtl/kernels/internal';
import { type GroupFault, ObservedGroup, type TraceEvent } from '../observed-group.js';
import { buildModel, computeStep, evaluateStep, type StepOptions, type StepResult } from '../small-gpt.js';

/** A step as a rank computes it. */
export interface ShardedStepOptions extends StepOptions {
  readonly sequenceParallel: boolean;
  readonly fault?: GroupFault;
  /** Rank 1 uses the dropout masks of rank 0, for its heads or for its positions. */
  readonly shift?: 'heads' | 'positions';
}

export interface ShardedStepResult extends StepResult {
  readonly evaluated: number;
  /** The communication of the training step, evaluation left out. */
  readonly counts: Readonly<Record<'allReduce' | 'allGather' | 'reduceScatter', OperationCount>>;
  readonly trace: readonly TraceEvent[];
}

/** Computes steps one after the other, each with a new model. */
export default function shardedGpt(world: World, steps: readonly ShardedStepOptions[]): ShardedStepResult[] {
  // ranks share the cores, so each uses one thread
  setNumThreads(1);
  // unwritten memory must not look right because it held the same values before
  setPoison(true);
  return steps.map((step, index) => runStep(world, step, index));
}

function runStep(world: World, options: ShardedStepOptions, index: number): ShardedStepResult {
  const ranks = Array.from({ length: world.size }, (_, rank) => rank);
  const group = new ObservedGroup(world.createGroup({ name: `step ${index}`, ranks }));
  const built = buildModel(options, { group, sequenceParallel: options.sequenceParallel });
  if (options.shift === 'heads' && world.rank === 1) {
    for (const block of built.stage.blocks) {
      const forward = block.forward.bind(block);
      block.forward = (tape, input, context) =>
        forward(tape, input, {
          ...context,
          attend: (inner, call) => context.attend(inner, { ...call, headOffset: 0 }),
        });
    }
  }
  if (options.shift === 'positions' && world.rank === 1) {
    // parameters were sliced at construction, so only the positions of a call still read the rank
    Object.defineProperty(group, 'rank', { value: 0 });
  }
  group.begin(options.fault);
  const result = computeStep(built, options);
  const { allReduce, allGather, reduceScatter } = group.statistics();
  const trace = [...group.trace];
  group.begin();
  const evaluated = evaluateStep(built);
  built.dispose();
  return { ...result, evaluated, counts: { allReduce, allGather, reduceScatter }, trace };
}
