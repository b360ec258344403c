import { ConfigurationError } from '@mtl/errors';
import {
  LearningRateSchedule,
  type LearningRateScheduleOptions,
  LossScaler,
  type LossScalerOptions,
} from '@mtl/optimizer';
import { noteOfDecoupledRate } from '../adapters/adapter-configuration.js';
import { withoutUndefined } from '../flags/flag-values.js';
import { muonFlags, optimizerFlags } from '../flags/optimizer-flags.js';
import type {
  MuonConfiguration,
  OptimizerConfiguration,
  TrainingConfiguration,
} from '../pretraining-configuration.js';
import type { FlagName } from '../schema/flag-schema.js';
import { type FlagReader, inWordsOfFlags } from './flag-reader.js';
import { configureStatePrecision } from './state-precision.js';

/**
 * Returns the settings of Muon if the flags select Muon.
 *
 * @throws ConfigurationError `MTL_MUON_TP_MODE` for updates that depend on the layout.
 */
function muonConfiguration(flags: FlagReader, notices: string[]): MuonConfiguration | undefined {
  if (flags.required('optimizer') !== 'muon') {
    notices.push(...flags.noticesOfUnused(Object.keys(muonFlags) as FlagName[], 'without --optimizer muon'));
    return undefined;
  }
  const mode = flags.required('muon-tp-mode');
  if (mode === 'blockwise') {
    throw new ConfigurationError(
      'MTL_MUON_TP_MODE',
      `${flags.written('muon-tp-mode')}: a block is a tensor-parallel shard, so that the model would depend on --tensor-model-parallel-size`,
      {
        expected: '--muon-tp-mode duplicated, which gives every layout the update of one process',
        remedy: 'leave --muon-tp-mode out',
      },
    );
  }
  if (mode === 'distributed') {
    notices.push('--muon-tp-mode distributed runs as duplicated, which gives the same update');
  }
  const precision = flags.get('muon-fp32-matmul-prec');
  return {
    momentum: flags.required('muon-momentum'),
    nesterov: flags.required('muon-nesterov'),
    scaleMode: flags.required('muon-scale-mode'),
    extraScaleFactor: flags.required('muon-extra-scale-factor'),
    coefficientType: flags.required('muon-coefficient-type'),
    numSteps: flags.required('muon-num-ns-steps'),
    splitQkv: !flags.required('muon-no-split-qkv'),
    ...(precision === undefined ? {} : { dtype: precision === 'high' ? 'float32' : 'bfloat16' }),
  };
}

/** The units in which the lengths of a schedule are counted, and the flags for each unit. */
const counting = {
  iterations: {
    decay: 'lr-decay-iters',
    warmup: 'lr-warmup-iters',
    wsdDecay: 'lr-wsd-decay-iters',
    whole: '--train-iters',
  },
  samples: {
    decay: 'lr-decay-samples',
    warmup: 'lr-warmup-samples',
    wsdDecay: 'lr-wsd-decay-samples',
    whole: '--train-samples',
  },
} as const satisfies Record<string, { decay: FlagName; warmup: FlagName; wsdDecay: FlagName; whole: string }>;

export interface OptimizerConfigurationOptions {
  readonly flags: FlagReader;
  readonly training: TrainingConfiguration;
  readonly notices: string[];
}

/**
 * Returns the settings of AdamW or Muon, of the learning rate and of the loss scale.
 *
 * @throws ConfigurationError `MTL_LEARNING_RATE`, `MTL_LOSS_SCALE`, `MTL_FLAG_CONFLICT`, `MTL_FLAG_NEEDS`,
 *   `MTL_MUON_TP_MODE`.
 */
export function optimizerConfiguration(options: OptimizerConfigurationOptions): OptimizerConfiguration {
  const { flags, training, notices } = options;
  const learningRate = configureLearningRate(flags, training);
  const decoupledLearningRate = readDecoupledRate(flags, notices);
  const lossScale = configureLossScale(flags, training, notices);
  const muon = muonConfiguration(flags, notices);
  const statePrecision = configureStatePrecision(flags, { training, notices });
  checkQkClip(flags, notices);
  // The constructors check the settings. The objects themselves are not used, because the run makes them
  // again.
  const [schedule] = inWordsOfFlags(
    () => [new LearningRateSchedule(learningRate), new LossScaler(lossScale)] as const,
  );
  notices.push(...noticeOfLowRates(flags, { training, learningRate, schedule }));
  return {
    learningRate,
    ...withoutUndefined({ decoupledLearningRate, muon, statePrecision }),
    ...flags.values(optimizerFlags),
    lossScale,
  };
}

/**
 * Rejects `--qk-clip` for models whose attention scores do not shrink with the weights of queries and keys.
 */
function checkQkClip(flags: FlagReader, notices: string[]): void {
  if (!flags.required('qk-clip')) {
    notices.push(...flags.noticesOfUnused(['qk-clip-alpha', 'qk-clip-threshold'], 'without --qk-clip'));
    return;
  }
  const refuse = (other: FlagName, why: string): void =>
    flags.conflict({ flags: ['qk-clip', other], why, remedy: 'leave --qk-clip out' });
  if (flags.get('qk-layernorm') === true) {
    refuse('qk-layernorm', 'the norm of queries and keys undoes a scale of their weights');
  }
  if (flags.get('attn-logit-softcapping') !== undefined) {
    refuse('attn-logit-softcapping', 'scores with a soft cap stay below it');
  }
}

function configureLearningRate(
  flags: FlagReader,
  training: TrainingConfiguration,
): OptimizerConfiguration['learningRate'] {
  const unit = training.trainSamples === undefined ? 'iterations' : 'samples';
  refuseOtherUnit(flags, unit);
  const names = counting[unit];
  const decaySteps = flags.get(names.decay) ?? training.trainSamples ?? training.trainIterations;
  const decayStyle = flags.required('lr-decay-style');
  refuseAbovePeak(flags, { name: 'min-lr', peakName: 'lr' });
  return {
    unit,
    maxLearningRate: flags.required('lr'),
    minLearningRate: flags.required('min-lr'),
    initialLearningRate: flags.required('lr-warmup-init'),
    decayStyle,
    warmupSteps: countWarmupSteps(flags, names.warmup, decaySteps),
    decaySteps,
    ...configureWsd(flags, decayStyle, names.wsdDecay),
  };
}

/**
 * Rejects a minimum learning rate above the maximum. The two values may come from different sources, such as
 * a preset and the command line, so the error names the source of each.
 */
function refuseAbovePeak(
  flags: FlagReader,
  options: {
    readonly name: 'min-lr' | 'decoupled-min-lr';
    readonly peakName: 'lr' | 'decoupled-lr';
    /** The flag that the remedy recommends to lower the minimum. Default: `name`. */
    readonly instead?: FlagName;
  },
): void {
  const { name, peakName, instead = name } = options;
  const [peak, lowest] = [flags.required(peakName), flags.required(name)];
  if (lowest <= peak) return;
  flags.refuse(name, `is above ${flags.written(peakName)}`, {
    code: 'MTL_LEARNING_RATE',
    expected: `at most ${peak}`, // removes the rounding error of the division
    remedy: `pass --${instead} ${Number((peak / 10).toPrecision(12))}`,
  });
}

/**
 * Returns the decoupled learning rates of the word embedding and the output layer. As in Megatron-LM, the
 * initial rate of the warm-up is the same for all parameters.
 */
function readDecoupledRate(
  flags: FlagReader,
  notices: string[],
): OptimizerConfiguration['decoupledLearningRate'] | undefined {
  const peak = flags.get('decoupled-lr');
  if (peak === undefined) return undefined;
  const note = noteOfDecoupledRate(flags);
  if (note !== undefined) {
    notices.push(note);
    return undefined;
  }
  const lowestFlag = flags.get('decoupled-min-lr') === undefined ? 'min-lr' : 'decoupled-min-lr';
  const lowest = flags.required(lowestFlag);
  refuseAbovePeak(flags, { name: lowestFlag, instead: 'decoupled-min-lr', peakName: 'decoupled-lr' });
  if (flags.required('lr-warmup-init') > peak) {
    flags.refuse('lr-warmup-init', `is above ${flags.written('decoupled-lr')}`, {
      code: 'MTL_LEARNING_RATE',
      expected: `at most ${peak}`,
      remedy: 'pass --lr-warmup-init 0',
    });
  }
  return { maxLearningRate: peak, minLearningRate: lowest };
}

/**
 * Rejects a schedule in iterations for a run in samples, and vice versa. The batch size may grow during the
 * run, so the units cannot be converted.
 */
function refuseOtherUnit(flags: FlagReader, unit: 'iterations' | 'samples'): void {
  const { decay, warmup, wsdDecay } = counting[unit === 'iterations' ? 'samples' : 'iterations'];
  for (const name of [decay, warmup, wsdDecay]) {
    if (flags.get(name) === undefined || flags.get(name) === 0) continue;
    flags.needs(
      name,
      counting[unit === 'iterations' ? 'samples' : 'iterations'].whole,
      `does not fit a training run counted in ${unit}`,
    );
  }
}

function countWarmupSteps(
  flags: FlagReader,
  name: 'lr-warmup-iters' | 'lr-warmup-samples',
  decaySteps: number,
): number {
  const steps = flags.get(name);
  const fraction = flags.get('lr-warmup-fraction');
  if (fraction === undefined) return steps ?? 0;
  if (steps !== undefined && steps > 0) {
    flags.conflict({
      flags: ['lr-warmup-fraction', name],
      why: 'warm-up is a share or a number of steps, not both',
    });
  }
  // a run on few conversations has only a few steps, so the warm-up is rounded down to leave at least one
  // step with the full rate
  return flags.get('train-data') === undefined ? fraction * decaySteps : Math.floor(fraction * decaySteps);
}

/** The fraction of the maximum learning rate that at least one step should reach. */
const fullRate = 0.9;

/**
 * Returns a notice if no step after the warm-up has the full rate. As in Megatron-LM, warm-up may end between
 * two steps.
 */
function noticeOfLowRates(
  flags: FlagReader,
  {
    training,
    learningRate,
    schedule,
  }: {
    readonly training: TrainingConfiguration;
    readonly learningRate: OptimizerConfiguration['learningRate'];
    readonly schedule: LearningRateSchedule;
  },
): readonly string[] {
  const { trainIterations, globalBatchSize, rampup, start } = training;
  const { warmupSteps = 0, decaySteps, maxLearningRate, unit } = learningRate;
  if (warmupSteps === 0 || start !== undefined || rampup !== undefined) return [];
  const perStep = unit === 'samples' ? globalBatchSize : 1;
  const ends = [Math.floor, Math.ceil].map((round) => round(warmupSteps / perStep));
  const rates = ends.map((step) => schedule.at(Math.min(step, trainIterations - 1) * perStep));
  const largest = Math.max(...rates);
  if (largest >= fullRate * maxLearningRate) return [];
  const shown = (value: number): string => String(Number(value.toPrecision(4)));
  return [
    `no step has the full learning rate of ${flags.written('lr')}: the largest is ${shown(largest)}, because warm-up takes ` +
      `${shown(warmupSteps / perStep)} of ${shown(decaySteps / perStep)} steps and the first step has the rate that it begins with; ` +
      'train longer, or leave warm-up out (--lr-warmup-fraction 0)',
  ];
}

function configureWsd(
  flags: FlagReader,
  decayStyle: LearningRateScheduleOptions['decayStyle'],
  steps: 'lr-wsd-decay-iters' | 'lr-wsd-decay-samples',
): Pick<LearningRateScheduleOptions, 'wsdDecaySteps' | 'wsdDecayStyle'> {
  const wsdDecaySteps = flags.get(steps);
  if (decayStyle !== 'WSD') {
    if (wsdDecaySteps !== undefined)
      flags.needs(steps, '--lr-decay-style WSD', 'is the last phase of another schedule');
    return {};
  }
  if (wsdDecaySteps === undefined) {
    flags.needs('lr-decay-style', `--${steps}`, 'does not say how long its last phase is');
  }
  return { wsdDecaySteps, wsdDecayStyle: flags.required('lr-wsd-decay-style') };
}

const dynamicScaleFlags = [
  'initial-loss-scale',
  'min-loss-scale',
  'loss-scale-window',
  'hysteresis',
] as const;

function configureLossScale(
  flags: FlagReader,
  training: TrainingConfiguration,
  notices: string[],
): LossScalerOptions {
  const scale = flags.get('loss-scale');
  if (scale === undefined && training.precision === 'fp16') {
    return {
      kind: 'dynamic',
      initialScale: flags.required('initial-loss-scale'),
      minScale: flags.required('min-loss-scale'),
      growthInterval: flags.required('loss-scale-window'),
      hysteresis: flags.required('hysteresis'),
    };
  }
  const where = scale === undefined ? `in ${training.precision}` : 'with a constant --loss-scale';
  notices.push(...flags.noticesOfUnused(dynamicScaleFlags, `${where}: the loss scale is not dynamic`));
  return { kind: 'constant', scale: scale ?? 1 };
}
