import { ConfigurationError } from '@mtl/errors';
import {
  buildSchedule,
  oneStage,
  type PipelineSchedule,
  type ScheduleNameOrOther,
} from '@mtl/pipeline/schedules';
import type { ModelSize, Recomputation } from '../operations/model-size.js';
import type { RankGroup } from '../operations/operation.js';
import type { ListedProfile } from '../profiles/profile.js';

/**
 * The parallel sizes of a run. Ranks are numbered along the tensor axis first, so that a tensor-parallel
 * group consists of neighbours, then along the data axis, then along the pipeline.
 */
export interface Layout {
  /** The number of tensor-parallel ranks, over which every layer is sharded. */
  readonly tp: number;
  /** Number of stages of the pipeline. */
  readonly pp: number;
  /** Number of replicas of the model. */
  readonly dp: number;
  /** The number v of chunks on each rank; with 2 or more, the schedule is interleaved. Default: 1. */
  readonly numChunks?: number;
  /**
   * The schedule, or its name for `buildSchedule`. Default: `1f1b`, or `interleaved` with more than one
   * chunk. Schedules that split the backward pass are refused, because the operation lists have only whole
   * passes.
   */
  readonly schedule?: ScheduleNameOrOther | PipelineSchedule;
  readonly microBatchSize: number;
  readonly globalBatchSize: number;
  readonly sequenceParallel?: boolean;
  readonly recomputation: Recomputation;
}

export interface StepOptions {
  readonly model: ModelSize;
  readonly layout: Layout;
  readonly profile: ListedProfile;
}

/** A layout with the former names of sizes, accepted for one version. */
export interface EarlierLayout extends Omit<Layout, 'tp' | 'pp' | 'dp'> {
  /** @deprecated `tp` */
  readonly tensorParallelSize: number;
  /** @deprecated `pp` */
  readonly pipelineParallelSize: number;
  /** @deprecated `dp` */
  readonly dataParallelSize: number;
}

/** Options of a step whose layout may have the former names. */
export type GivenStepOptions<Options extends StepOptions = StepOptions> = Omit<Options, 'layout'> & {
  readonly layout: Layout | EarlierLayout;
};

/** Returns the options with the current names of the layout's sizes. */
export function byAxis<Options extends StepOptions>(options: GivenStepOptions<Options>): Options {
  const { layout } = options;
  if (!('tensorParallelSize' in layout)) return options as unknown as Options;
  const { tensorParallelSize: tp, pipelineParallelSize: pp, dataParallelSize: dp, ...others } = layout;
  return { ...options, layout: { ...others, tp, pp, dp } } as unknown as Options;
}

/**
 * Rejects sizes that do not divide the model or the batch.
 *
 * @throws ConfigurationError `MTL_PLAN_LAYOUT`, whose message contains the value and the required divisor
 */
export function checkLayout({ model, layout }: Pick<StepOptions, 'model' | 'layout'>): void {
  const { tp: t, pp: p, dp: d, numChunks: v = 1 } = layout;
  const rules: readonly (readonly [what: string, value: number, divisor: number, parts: string])[] = [
    ['attention heads', model.numHeads, t, 'tensor-parallel ranks'],
    ['hidden size', model.hiddenSize, model.numHeads, 'attention heads'],
    ['query groups', model.numQueryGroups ?? model.numHeads, t, 'tensor-parallel ranks'],
    ['feed-forward size', model.ffnHiddenSize ?? 4 * model.hiddenSize, t, 'tensor-parallel ranks'],
    ['vocabulary', model.vocabularySize, t, 'tensor-parallel ranks'],
    ['layers', model.numLayers, p * v, 'chunks of the pipeline'],
    [
      'global batch',
      layout.globalBatchSize,
      layout.microBatchSize * d,
      'samples of a micro-batch on all pipelines',
    ],
  ];
  for (const [what, value, divisor, parts] of rules) {
    if (
      Number.isInteger(value) &&
      Number.isInteger(divisor) &&
      divisor > 0 &&
      value % divisor === 0 &&
      value > 0
    )
      continue;
    const near = Math.max(1, Math.round(value / divisor)) * divisor;
    throw new ConfigurationError(
      'MTL_PLAN_LAYOUT',
      `${what} ${value} cannot be split over ${divisor} ${parts}`,
      {
        expected: `a multiple of ${divisor}, such as ${near}`,
      },
    );
  }
}

/**
 * Returns the schedule of a layout.
 *
 * @throws ConfigurationError `MTL_PLAN_LAYOUT` for a schedule that splits the backward pass, because the
 *   operation lists have only whole passes; the errors of `buildSchedule`
 */
export function scheduleOfLayout(layout: Layout): PipelineSchedule {
  const { pp: numStages, numChunks = 1, microBatchSize, dp } = layout;
  const numMicroBatches = layout.globalBatchSize / (microBatchSize * dp);
  if (typeof layout.schedule === 'object') return withWholeBackward(layout.schedule);
  if (numStages === 1) return oneStage(numMicroBatches);
  const name = layout.schedule ?? (numChunks > 1 ? 'interleaved' : '1f1b');
  return withWholeBackward(buildSchedule(name, { numStages, numMicroBatches, numChunks }));
}

function withWholeBackward(schedule: PipelineSchedule): PipelineSchedule {
  const hasHalves = schedule.actions.some((actions) =>
    actions.some(({ kind }) => kind === 'I' || kind === 'W'),
  );
  if (!hasHalves) return schedule;
  throw new ConfigurationError(
    'MTL_PLAN_LAYOUT',
    `schedule ${schedule.name} has halves of backward passes, which the lists of other programs do not have`,
    { expected: 'gpipe, 1f1b, interleaved or breadth-first, or a profile whose operations are recorded' },
  );
}

/**
 * Returns the data-parallel group of a rank. If tensors are reduced one by one, NCCL uses few channels for
 * the small messages, and one adapter of a node. Buckets use the adapters of all ranks of the group.
 */
export function dataGroup({ layout, profile }: Pick<StepOptions, 'layout' | 'profile'>): RankGroup {
  const { hardware, software } = profile;
  const { tp: t, dp: d } = layout;
  const perNode = Math.min(d, Math.max(1, Math.floor(hardware.gpusPerNode.value / t)));
  return { axis: 'dp', size: d, perNode, adapters: software.reducesInBuckets ? perNode : 1 };
}
