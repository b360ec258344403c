import type { FlagName, OptimizerConfiguration } from '@mtl/configuration';

/** What a schedule consists of: Megatron-LM keeps these with a checkpoint. */
export type Schedule = Pick<OptimizerConfiguration, 'learningRate' | 'decoupledLearningRate' | 'weightDecay'>;

/** One value of a schedule, by the flag that sets it. */
export interface ScheduleSetting {
  readonly flag: FlagName;
  readonly value: string | number | undefined;
}

const stepFlags = {
  iterations: { warmup: 'lr-warmup-iters', decay: 'lr-decay-iters', wsdDecay: 'lr-wsd-decay-iters' },
  samples: { warmup: 'lr-warmup-samples', decay: 'lr-decay-samples', wsdDecay: 'lr-wsd-decay-samples' },
} as const;

/** The flag for the length of the decay. */
export const decayFlagOf = ({ learningRate }: Schedule): FlagName => stepFlags[learningRate.unit].decay;

/** The values of a schedule, those that have no effect left out. */
export function scheduleSettings(schedule: Schedule): readonly ScheduleSetting[] {
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
    // a constant rate has no end
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

/** Flags of a run whose schedule was replaced by another one: what is saved makes that schedule again. */
export function flagsWithSchedule<Flags extends object>(flags: Flags, schedule: Schedule): Flags {
  const kept = Object.entries(flags).filter(([name]) => !replaced.includes(name as FlagName));
  const settings = scheduleSettings(schedule).map(({ flag, value }) => [flag, value] as const);
  const { warmup } = stepFlags[schedule.learningRate.unit];
  const { warmupSteps = 0, decaySteps } = schedule.learningRate;
  const written = Object.fromEntries([...kept, ...settings]) as Record<string, unknown>;
  if (!Number.isInteger(warmupSteps)) {
    // a share of the decay steps need not be a whole number of them
    delete written[warmup];
    written['lr-warmup-fraction'] = warmupSteps / decaySteps;
  }
  return written as Flags;
}
