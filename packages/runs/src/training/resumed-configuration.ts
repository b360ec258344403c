import type { Checkpoint } from '@mtl/checkpoint';
import type {
  ConfigurationJson,
  FlagName,
  OptimizerConfiguration,
  PretrainingConfiguration,
  SavedConfiguration,
} from '@mtl/configuration';
import { learningDifferences } from '@mtl/configuration/saved';
import { CheckpointError } from '@mtl/errors';

const override = '--override-opt_param-scheduler';
const useCheckpoint = '--use-checkpoint-opt_param-scheduler';

export interface ResumedConfigurationOptions {
  readonly configuration: PretrainingConfiguration;
  /** The checkpoint from which training continues. */
  readonly checkpoint: Pick<Checkpoint, 'path' | 'state'>;
  /** True if the optimizer's state and the schedule are loaded from the checkpoint. */
  readonly withOptimizer: boolean;
  /** The command that started the run, which is printed in the remedy. */
  readonly commandLine?: string | undefined;
  /** Returns descriptions of how the data has changed since the checkpoint was saved. Default: none. */
  readonly changedData?: () => readonly string[];
}

export interface ResumedConfiguration {
  /** The configuration with the schedule in effect. */
  readonly configuration: PretrainingConfiguration;
  /**
   * Descriptions of how the settings differ from the settings of the run that saved the checkpoint. Empty if
   * nothing differs.
   */
  readonly notes: readonly string[];
}

type Resolved = ConfigurationJson['resolved'];

/** A setting that differs between two runs. */
interface Difference {
  readonly flag: string;
  readonly before: string;
  readonly now: string;
}

/**
 * Compares the settings of a run with the checkpoint that it resumes. As in Megatron-LM, a different learning
 * rate schedule or weight decay is an error unless a flag selects the old or the new value. For all further
 * differences that affect training, the new value is used, and the difference is listed. Checkpoints of
 * conversions and of task fine-tuning contain no training settings, and are not compared.
 *
 * @throws CheckpointError MTL_CHECKPOINT_SCHEDULE, status 2
 */
export function resumedConfiguration(options: ResumedConfigurationOptions): ResumedConfiguration {
  const { checkpoint, withOptimizer } = options;
  const saved = (checkpoint.state.configuration ?? {}) as Partial<SavedConfiguration>;
  const before = saved.trainedOn === undefined ? {} : saved;
  const schedule = withOptimizer
    ? resumedSchedule(options, before.resolved && scheduleBefore(before.resolved))
    : { configuration: options.configuration, changes: [] };
  const { configuration } = schedule;
  const changes = [...schedule.changes, ...learningDifferences(before, configuration)];
  const notes =
    changes.length === 0
      ? []
      : [
          `  settings that differ from ${checkpoint.path} (old -> new):`,
          ...changes.map(({ flag, before, now }) => `    --${flag} ${before} -> ${now}`),
        ];
  return { configuration, notes };
}

/**
 * Returns the schedule of the checkpoint's run. For conversations, older versions stored a fractional number
 * of warm-up steps, which this function rounds down.
 */
function scheduleBefore({ data, optimizer }: Resolved): Schedule {
  const { learningRate } = optimizer;
  if (data?.conversations === undefined || learningRate === undefined) return optimizer;
  const warmupSteps = Math.floor(learningRate.warmupSteps ?? 0);
  return { ...optimizer, learningRate: { ...learningRate, warmupSteps } };
}

function resumedSchedule(
  options: ResumedConfigurationOptions,
  before: Schedule | undefined,
): { readonly configuration: PretrainingConfiguration; readonly changes: readonly Difference[] } {
  const { configuration, checkpoint } = options;
  const { schedule } = configuration.checkpoint;
  if (typeof before?.learningRate?.maxLearningRate !== 'number') {
    if (schedule !== 'checkpoint') return { configuration, changes: [] };
    throw new CheckpointError('MTL_CHECKPOINT_SCHEDULE', `${checkpoint.path} records no schedule`, {
      expected: 'a checkpoint that a training run saved',
      remedy: `leave ${useCheckpoint} out`,
      exitCode: 2,
    });
  }
  const changes = differences(scheduleSettings(before), scheduleSettings(configuration.optimizer));
  if (changes.length === 0 || schedule === 'override') return { configuration, changes };
  const isSameUnit = before.learningRate.unit === configuration.optimizer.learningRate.unit;
  if (schedule !== 'checkpoint' || !isSameUnit) throw refusal({ ...options, before, changes });
  const { decoupledLearningRate: _, ...optimizer } = configuration.optimizer;
  const { learningRate, decoupledLearningRate, weightDecay } = before;
  const decoupled = decoupledLearningRate && { decoupledLearningRate };
  return {
    configuration: {
      ...configuration,
      optimizer: { ...optimizer, learningRate, ...decoupled, weightDecay },
      flags: flagsWithSchedule(configuration.flags, before),
    },
    changes: changes.map(({ flag, before, now }) => ({
      flag,
      before: now,
      now: `${before} (the checkpoint's)`,
    })),
  };
}

function differences(
  before: readonly ScheduleSetting[],
  now: readonly ScheduleSetting[],
): readonly Difference[] {
  const flags = [...new Set([...before, ...now].map(({ flag }) => flag))];
  const formatSetting = (settings: readonly ScheduleSetting[], name: FlagName): string => {
    const value = settings.find(({ flag }) => flag === name)?.value;
    return value === undefined ? 'none' : shown(value);
  };
  return flags.flatMap((flag) => {
    const change = { flag, before: formatSetting(before, flag), now: formatSetting(now, flag) };
    return change.before === change.now ? [] : [change];
  });
}

/**
 * Formats a value. Numbers are rounded to 12 digits, because a fractional number of warm-up steps has
 * rounding errors in its last digits.
 */
const shown = (value: string | number): string =>
  typeof value === 'number' ? String(Number(value.toPrecision(12))) : value;

function refusal(
  options: ResumedConfigurationOptions & {
    readonly before: Schedule;
    readonly changes: readonly Difference[];
  },
): CheckpointError {
  const { configuration, checkpoint, before, changes, commandLine } = options;
  const listed = (which: 'before' | 'now'): string =>
    changes
      .filter((change) => change[which] !== 'none')
      .map((change) => `--${change.flag} ${change[which]}`)
      .join(' ');
  const decay = chooseDecayFlag(before);
  const isLength = changes.some(({ flag }) => flag === decay) && configuration.flags[decay] === undefined;
  const isSameUnit = before.learningRate.unit === configuration.optimizer.learningRate.unit;
  const keeping = isSameUnit ? remedyOfKeeping({ changes, decay, isLength }) : undefined;
  const add = (flags: string): string =>
    commandLine === undefined ? ` add ${flags}` : `\n    ${commandLine} ${flags}`;
  const kept = keeping === undefined ? '' : `to keep the checkpoint's schedule:${add(keeping)}\n  `;
  const { epochs } = configuration.flags;
  const changedData = isLength && epochs !== undefined ? (options.changedData?.() ?? []) : [];
  if (changedData.length > 0)
    return refusalOfOtherData({ ...options, epochs: epochs!, changed: changedData, add });
  const whole = isLength ? `; the decay lasts as long as training (no --${decay})` : '';
  return new CheckpointError(
    'MTL_CHECKPOINT_SCHEDULE',
    `${checkpoint.path} was trained with ${listed('before')}, and this run has ${listed('now')}${whole}`,
    {
      expected: 'the schedule of the checkpoint, or a flag that selects one of the two',
      remedy: `${kept}to use the schedule of this command line:${add(override)}`,
      details: { changes },
      exitCode: 2,
    },
  );
}

/**
 * Returns the error for a run whose data has changed, so that --epochs now means a different number of steps.
 */
function refusalOfOtherData(
  options: ResumedConfigurationOptions & {
    readonly changes: readonly Difference[];
    readonly epochs: number;
    /** Descriptions of the changes of the data. */
    readonly changed: readonly string[];
    readonly add: (flags: string) => string;
  },
): CheckpointError {
  const { configuration, checkpoint, changes, epochs, changed, add } = options;
  const saved = checkpoint.state.configuration as Partial<SavedConfiguration>;
  const before = saved.resolved?.training?.trainIterations;
  const { trainIterations } = configuration.training;
  return new CheckpointError(
    'MTL_CHECKPOINT_SCHEDULE',
    `the data are not those that ${checkpoint.path} was trained on (${changed.join('; ')}): ` +
      `--epochs ${epochs} is ${trainIterations} steps in all, and was ${before}, over which the learning rate decays`,
    {
      expected: 'the data of the run, or a flag that selects one of the two schedules',
      remedy:
        'put the data back, or train on the new ones in a run of its own (--finetune);\n' +
        `  to go on with the checkpoint's schedule:${add(useCheckpoint)}\n` +
        `  to use the schedule of the new data:${add(override)}`,
      details: { changes, changedData: changed },
      exitCode: 2,
    },
  );
}

/**
 * Returns the flag that keeps the checkpoint's schedule. If only the length of the decay has changed (because
 * of --train-iters), the result is the flag for this length. Otherwise, the result is the flag that selects
 * all values of the checkpoint.
 */
function remedyOfKeeping(options: {
  readonly changes: readonly Difference[];
  readonly decay: FlagName;
  readonly isLength: boolean;
}): string {
  const { changes, decay, isLength } = options;
  // if the warm-up is a fraction of the decay, it changes with the length of the decay
  const isLengthAlone = changes.every(({ flag }) => flag === decay || flag.startsWith('lr-warmup-'));
  const length = changes.find(({ flag }) => flag === decay);
  return isLength && isLengthAlone ? `--${decay} ${length!.before}` : useCheckpoint;
}

/** The settings of a schedule, which Megatron-LM also stores in its checkpoints. */
type Schedule = Pick<OptimizerConfiguration, 'learningRate' | 'decoupledLearningRate' | 'weightDecay'>;

/** A setting of a schedule, with its flag. */
interface ScheduleSetting {
  readonly flag: FlagName;
  readonly value: string | number | undefined;
}

const stepFlags = {
  iterations: { warmup: 'lr-warmup-iters', decay: 'lr-decay-iters', wsdDecay: 'lr-wsd-decay-iters' },
  samples: { warmup: 'lr-warmup-samples', decay: 'lr-decay-samples', wsdDecay: 'lr-wsd-decay-samples' },
} as const;

/**
 * Returns the flag for the length of the decay in iterations or samples, depending on the schedule's unit.
 */
const chooseDecayFlag = ({ learningRate }: Schedule): FlagName => stepFlags[learningRate.unit].decay;

/** Returns a schedule's settings that have an effect. */
function scheduleSettings(schedule: Schedule): readonly ScheduleSetting[] {
  const { learningRate, decoupledLearningRate, weightDecay } = schedule;
  const { decayStyle, unit, wsdDecaySteps, wsdDecayStyle } = learningRate;
  const { warmup, decay, wsdDecay } = stepFlags[unit];
  const settings: readonly ScheduleSetting[] = [
    { flag: 'lr', value: learningRate.maxLearningRate },
    { flag: 'min-lr', value: learningRate.minLearningRate ?? 0 },
    { flag: 'decoupled-lr', value: decoupledLearningRate?.maxLearningRate },
    { flag: 'decoupled-min-lr', value: decoupledLearningRate?.minLearningRate },
    { flag: 'lr-warmup-init', value: learningRate.initialLearningRate ?? 0 },
    { flag: warmup, value: learningRate.warmupSteps ?? 0 },
    { flag: 'lr-decay-style', value: decayStyle },
    // a constant rate has no decay length
    { flag: decay, value: decayStyle === 'constant' ? undefined : learningRate.decaySteps },
    { flag: wsdDecay, value: wsdDecaySteps },
    { flag: 'lr-wsd-decay-style', value: wsdDecayStyle },
    { flag: 'weight-decay', value: weightDecay },
  ];
  return settings.filter(({ value }) => value !== undefined);
}

const replaced: readonly FlagName[] = [
  ...([
    'lr',
    'min-lr',
    'decoupled-lr',
    'decoupled-min-lr',
    'lr-warmup-init',
    'lr-warmup-fraction',
    'lr-decay-style',
  ] as const),
  ...(['lr-wsd-decay-style', 'weight-decay'] as const),
  ...Object.values(stepFlags).flatMap((flags) => Object.values(flags)),
];

/**
 * Returns a run's flags with the settings of its schedule replaced by `schedule`. Parsing these flags again
 * results in this schedule.
 */
export function flagsWithSchedule<Flags extends object>(flags: Flags, schedule: Schedule): Flags {
  const kept = Object.entries(flags).filter(([name]) => !replaced.includes(name as FlagName));
  const settings = scheduleSettings(schedule).map(({ flag, value }) => [flag, value] as const);
  const { warmup } = stepFlags[schedule.learningRate.unit];
  const { warmupSteps = 0, decaySteps } = schedule.learningRate;
  const written = Object.fromEntries([...kept, ...settings]) as Record<string, unknown>;
  if (!Number.isInteger(warmupSteps)) {
    // a warm-up that is a fraction of the decay steps may not be a whole number of steps, so it is written as
    // a fraction
    delete written[warmup];
    written['lr-warmup-fraction'] = warmupSteps / decaySteps;
  }
  return written as Flags;
}
