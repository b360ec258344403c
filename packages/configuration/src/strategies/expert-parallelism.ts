import { ConfigurationError, nearestDivisors } from '@mtl/errors';
import { choice, count } from '../flags/flag-kinds.js';
import type { FlagValues } from '../flags/flag-values.js';
import {
  type AxisSize,
  axesOfStage,
  formatAxes,
  greatestCommonDivisor,
  listDivisors,
  numAlong,
  type StrategyCall,
  sizeOfAxis,
  strategy,
} from './strategy.js';

/** The flags that request expert parallelism. */
export const expertParallelFlags = {
  'expert-model-parallel-size': count(
    'Processes over which the experts of a layer are divided. Tensor and data parallelism have the same processes: it takes no more.',
    { defaultText: '1' },
  ),
  'expert-tensor-parallel-size': count('Processes that share an expert.', {
    defaultText: '--tensor-model-parallel-size',
  }),
  'moe-token-dispatcher-type': choice(
    ['alltoall', 'allgather'],
    "How tokens reach the processes of their experts: each goes to those alone, or all go to all. Megatron-LM's default is allgather.",
    {
      defaultText: 'alltoall',
      otherChoices: { flex: 'write --moe-token-dispatcher-type alltoall: the kernels of flex are not here' },
    },
  ),
};

/** The settings for expert parallelism; absent in runs without experts. */
export interface ExpertParallelConfiguration extends FlagValues<typeof expertParallelFlags> {}

type Call = StrategyCall<typeof expertParallelFlags>;

/**
 * Expert parallelism (Lepikhin et al. 2020): the experts of a layer are sharded over processes. In layers
 * without experts, the same processes split the samples or the matrices. The sizes of parallelism for experts
 * may differ from the sizes for other layers (parallel folding, Liu et al. 2025).
 */
export const expertParallelism = strategy<typeof expertParallelFlags, ExpertParallelConfiguration>({
  flags: expertParallelFlags,
  axes: [
    {
      name: 'etp',
      flag: 'expert-tensor-parallel-size',
      recordedAs: 'expertTensor',
      field: 'expertTensorParallelSize',
      // an expert is split over tensor-parallel processes in the same way as the rest of the layer, or not at
      // all; experts with biases cannot be split
      search: ({ values, sizes: { tp = 1 }, rest }) => {
        if (!values['num-experts']) return undefined;
        const width = widthOfExperts(values);
        const areSplit = values['disable-bias-linear'] === true && tp > 1;
        return { sizes: areSplit ? [1, tp] : [1], fits: (size) => rest % size === 0 && width % size === 0 };
      },
    },
    {
      name: 'ep',
      flag: 'expert-model-parallel-size',
      field: 'expertModelParallelSize',
      search: ({ values, rest }) => {
        const numExperts = values['num-experts'] as number | undefined;
        if (!numExperts) return undefined;
        return {
          sizes: listDivisors(numExperts),
          fits: (size) => numExperts % size === 0 && rest % size === 0,
        };
      },
    },
  ],
  countsAs: 'ep',
  kind: 'gpt',
  sharing: {
    help: {
      'expert-model-parallel-size':
        'Processes over which the experts of a layer are divided: of those that share the layer.',
    },
    configure: ({ 'expert-model-parallel-size': size = 1 }, axes) => {
      checkSharedExperts(size, sizeOfAxis(axes, 'tp'));
      // inference never splits experts over tensor-parallel processes, so experts may have biases
      return { expertModelParallelSize: size, expertTensorParallelSize: 1 };
    },
    checkModel: ({ numExperts }, { sizes: { ep }, path }) => {
      if (ep === 1 || numExperts !== undefined) return;
      throw new ConfigurationError(
        'MTL_FLAG_NEEDS',
        `--expert-model-parallel-size ${ep} divides experts over processes, and ${path} has none`,
        { remedy: 'leave --expert-model-parallel-size out' },
      );
    },
  },
  ofModel: ({ groups: { ep, etp, experts }, fields: { moeTokenDispatcherType }, assumedRouting }) => ({
    expertParallel: {
      spread: ep,
      sharing: etp,
      all: experts,
      dispatcher: moeTokenDispatcherType,
      assumedRouting,
    },
  }),
  configure: (call) => {
    const { numExperts } = call.model;
    if (numExperts === undefined) return withoutExperts(call);
    const sizes = readStageSizes(call);
    checkExpertTensorSize(call, sizes);
    checkExpertSize(call, { ...sizes, numExperts });
    return {
      expertModelParallelSize: sizes.ep,
      expertTensorParallelSize: sizes.etp,
      moeTokenDispatcherType: call.flags.get('moe-token-dispatcher-type') ?? 'alltoall',
    };
  },
  groups: () => ({ ep: ['ep'], etp: ['etp'], experts: ['etp', 'ep'] }),
  savings: [
    {
      flag: 'expert-model-parallel-size',
      costs: 'little',
      values: ({ sizes, hasExperts }) => (hasExperts ? [2, 4, 8].map((factor) => factor * sizes.ep) : []),
    },
  ],
  dependsOnRouting: ({ expertModelParallelSize = 1 }) => expertModelParallelSize > 1,
});

/** Returns the hidden size F of an expert's MLP, from the flags of a model. */
function widthOfExperts({
  'moe-ffn-hidden-size': own,
  'ffn-hidden-size': dense,
  'hidden-size': hidden,
}: Readonly<Record<string, unknown>>): number {
  return (own ?? dense ?? 4 * (hidden as number)) as number;
}

/**
 * Checks the flags of expert parallelism for a model without experts. A size that equals the size for dense
 * layers has no effect; other sizes are rejected.
 */
function withoutExperts({ flags: given, axes, notices }: Call): ExpertParallelConfiguration {
  const tp = axes.find(({ axis }) => axis === 'tp')!.size;
  const meant = { 'expert-model-parallel-size': [1], 'expert-tensor-parallel-size': [1, tp] } as const;
  for (const name of Object.keys(meant) as (keyof typeof meant)[]) {
    const size = given.get(name);
    if (size !== undefined && !meant[name].includes(size as 1)) {
      given.needs(name, '--num-experts', 'spreads experts over processes, and there are none');
    }
  }
  for (const name of Object.keys(expertParallelFlags) as (keyof typeof expertParallelFlags)[]) {
    if (given.get(name) !== undefined) notices.push(`--${name} has no effect without --num-experts`);
  }
  return {};
}

interface SizesOfStage {
  readonly etp: number;
  readonly ep: number;
  /**
   * The axes along which a stage is split, with their sizes. Their product is the number of processes of a
   * stage.
   */
  readonly axes: readonly AxisSize[];
  readonly stage: number;
}

function readStageSizes({ flags: given, axes: all }: Call): SizesOfStage {
  const axes = axesOfStage(all);
  const etp = given.get('expert-tensor-parallel-size') ?? sizeOfAxis(axes, 'tp');
  return { etp, ep: given.get('expert-model-parallel-size') ?? 1, axes, stage: numAlong(axes) };
}

/**
 * Checks that the number of processes that share a layer is divisible by `size`, the number of processes over
 * which the experts are sharded.
 */
function checkSharedExperts(size: number, numSharing: number): void {
  if (numSharing % size === 0) return;
  const nearest = nearestDivisors(numSharing, size);
  throw new ConfigurationError(
    'MTL_EXPERT_PARALLEL_SIZE',
    `--expert-model-parallel-size ${size} does not divide --tensor-model-parallel-size ${numSharing}`,
    {
      expected: nearest.join(' or '),
      remedy: `pass --expert-model-parallel-size ${nearest.at(0)}, or a larger --tensor-model-parallel-size`,
      details: { size, nearest },
    },
  );
}

/** Checks that an expert can be split evenly over the processes of a stage. */
function checkExpertTensorSize({ flags: given, model }: Call, { etp, stage, axes }: SizesOfStage): void {
  const name = 'expert-tensor-parallel-size';
  const written =
    given.get(name) === undefined
      ? `${given.written('tensor-model-parallel-size')}, which is --${name} too,`
      : given.written(name);
  const refuse = (problem: string, nearest: readonly number[], otherwise = ''): never => {
    throw new ConfigurationError('MTL_EXPERT_PARALLEL_SIZE', `${written} ${problem}`, {
      expected: nearest.join(' or '),
      remedy: `pass --${name} ${nearest.at(0)}${otherwise}`,
      details: { flag: name, size: etp, nearest },
    });
  };
  if (etp > 1 && model.addBiasLinear !== false) {
    refuse('splits experts, whose biases cannot be split', [1], ', or add --disable-bias-linear');
  }
  const width = model.moeFfnHiddenSize ?? model.ffnHiddenSize;
  const flagOfWidth = width === model.ffnHiddenSize ? 'ffn-hidden-size' : 'moe-ffn-hidden-size';
  const nearest = nearestDivisors(greatestCommonDivisor(width, stage), etp);
  if (width % etp !== 0) refuse(`does not divide --${flagOfWidth} ${width}`, nearest);
  if (stage % etp !== 0) {
    refuse(`does not divide the ${stage} processes of a stage (${formatAxes(axes)})`, nearest);
  }
}

/** Checks that the experts can be sharded evenly over the processes of a stage. */
function checkExpertSize(
  { flags: given }: Call,
  { etp, ep, stage, numExperts, axes }: SizesOfStage & { readonly numExperts: number },
): void {
  const name = 'expert-model-parallel-size';
  const shares = stage / etp;
  if (numExperts % ep === 0 && shares % ep === 0) return;
  const nearest = nearestDivisors(greatestCommonDivisor(numExperts, shares), ep);
  const problem =
    numExperts % ep === 0
      ? `does not fit ${stage} processes of a stage (${formatAxes(axes)}): ` +
        `${etp} x ${ep} processes that share experts do not divide them`
      : `does not divide ${given.written('num-experts')}`;
  given.refuse(name, problem, {
    code: 'MTL_EXPERT_PARALLEL_SIZE',
    expected: nearest.join(' or '),
    remedy: `pass --${name} ${nearest.at(0)}`,
    details: { flag: name, size: ep, numExperts, stage, nearest },
  });
}
